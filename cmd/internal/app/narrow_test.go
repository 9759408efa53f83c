package app

import "testing"

func TestNarrow(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Usage: debrief demo [flags]\n":                                               "Usage: debrief demo [flags]\n",
		"A text that is longer than the thirty columns.\n":                            "A text that is longer than the\nthirty columns.\n",
		"  -h, --help          Show help.\n":                                          "  -h, --help\n      Show help.\n",
		"      --name=NAME     Name of the run and of its playbook.\n":                "  --name=NAME\n      Name of the run and of\n      its playbook.\n",
		"  playbook show       Show a playbook.\n":                                    "  playbook show\n      Show a playbook.\n",
		"    3  refused, or a conflict with the stored state\n":                       "    3  refused, or a conflict\n       with the stored state\n",
		"    debrief demo --epochs 2 --train 80 --data data\n":                        "    debrief demo --epochs 2 --train 80 --data data\n",
		"    ca.pem                       certificate authority of the server here\n": "    ca.pem                       certificate authority of the server here\n",
		"\n": "\n",
		"":   "",
	} {
		if got := narrow(in, 30); got != want {
			t.Errorf("%q:\ngot\n%swant\n%s", in, got, want)
		}
	}
}
