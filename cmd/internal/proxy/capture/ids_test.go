package capture

import "testing"

func TestRandomIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"call_9pw1MdABcjdmOvR6FjHvMXtL":        true,
		"toolu_01A09q90qw90lq917835lq9":        true,
		"call_aB3-xY9_k2Qz":                    true, // base64url with separators in the middle
		"chatcmpl-tool-Zk3_9w-Qp0a_Lm":         true,
		"3f2a9c1e-77d0-4b1c-9a55-0c2d4e6f8a1b": true,
		"functions.find:0":                     false,
		"functions.getUserByEmail:12":          false,
		"call_1":                               false,
		"step1_call2_tool3":                    false,
		"response1":                            false,
		"tool_v2_3d":                           false,
		"2031-05-17-000001":                    false,
		"":                                     false,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			if got := isRandom(id); got != want {
				t.Errorf("isRandom(%q) = %t, want %t", id, got, want)
			}
		})
	}
}
