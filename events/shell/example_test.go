package shell_test

import (
	"fmt"

	"debrief/events/shell"
)

func ExampleParse() {
	commands, err := shell.Parse("cd /repo && sudo pip3 install 'requests>=2' && python3 -m pytest -q | tail -5")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range commands {
		a := c.Action()
		fmt.Println(c.Program, c.Dir, a.Name, c.Piped)
	}
	// Output:
	// cd  cd false
	// pip /repo pip install false
	// python /repo python -m pytest false
	// tail /repo tail true
}
