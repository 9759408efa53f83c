package request

import (
	"testing"

	"debrief/events/natsd/natsdtest"
)

func TestMain(m *testing.M) {
	natsdtest.Prepare()
	m.Run()
}
