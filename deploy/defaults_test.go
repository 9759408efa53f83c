package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"debrief/curator"
	"debrief/events/bus"
	"debrief/generator"
	"debrief/reflector"
)

// TestNumbersMatchTheDefaults compares the numbers of the manifests that follow from defaults with the defaults.
func TestNumbersMatchTheDefaults(t *testing.T) {
	t.Parallel()
	// A worker below its slots, or a curator below a full batch, needs no further process.
	limits := map[string]int{
		"generator": generator.Config{}.WithDefaults().Slots,
		"reflector": reflector.Config{}.WithDefaults().Slots,
		"curator":   curator.Config{}.WithDefaults().MaxBatch,
	}
	file, err := os.Open("kubernetes/components/keda/scaled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for dec := yaml.NewDecoder(file); ; {
		var o struct {
			Metadata struct{ Name string }
			Spec     struct {
				Triggers []struct{ Metadata map[string]string }
			}
		}
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil || len(o.Spec.Triggers) != 1 {
			t.Fatalf("scaled.yaml: got %+v, %v", o, err)
		}
		lag, err := strconv.Atoi(o.Spec.Triggers[0].Metadata["lagThreshold"])
		if most := limits[o.Metadata.Name]; err != nil || lag < 1 || lag > most {
			t.Errorf("lagThreshold of %s: got %d, want at most %d, which one worker handles at a time", o.Metadata.Name, lag, most)
		}
		delete(limits, o.Metadata.Name)
	}
	if len(limits) > 0 {
		t.Errorf("scaled.yaml: no threshold found for %v", limits)
	}

	grace := regexp.MustCompile(`(?:stop_grace_period|terminationGracePeriodSeconds): (\d+)s? # work in flight has (\d+) s to finish`)
	want := bus.Policy{}.WithDefaults().Grace
	for _, name := range []string{"compose.yaml", "kubernetes/base/generator.yaml", "kubernetes/base/reflector.yaml", "kubernetes/base/curator.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := grace.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s: no grace period with its reason found", name)
			continue
		}
		if total, own := seconds(m[1]), seconds(m[2]); own != want || total <= want {
			t.Errorf("%s: got %s, of which %s are for work in flight, want %s and more in all", name, total, own, want)
		}
	}
}

func seconds(digits []byte) time.Duration {
	n, _ := strconv.Atoi(string(bytes.TrimSpace(digits)))
	return time.Duration(n) * time.Second
}
