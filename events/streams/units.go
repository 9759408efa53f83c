package streams

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Age is the longest time for which a stream keeps a message. 0 is without a limit. Its text is a duration, or a number of days: 30d.
type Age time.Duration

// day is the unit of ages that people choose.
const day = 24 * time.Hour

// String returns the age in the format of UnmarshalText: whole days in days, and 0 for no limit.
func (a Age) String() string {
	d := time.Duration(a)
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return d.String()
}

func (a *Age) UnmarshalText(text []byte) error {
	const longest = 100 * 365 * day // the server stores ages as 64-bit nanoseconds
	var d time.Duration
	var err error
	if number, isDays := strings.CutSuffix(string(text), "d"); isDays {
		var days uint64
		days, err = strconv.ParseUint(number, 10, 16)
		d = time.Duration(days) * day
	} else {
		d, err = time.ParseDuration(string(text))
	}
	if err != nil || d < 0 || d > longest {
		return fmt.Errorf("want a duration such as 30d or 12h, got %q", text)
	}
	*a = Age(d)
	return nil
}

// Size is a number of bytes. Its text is a number with an optional unit: B, KiB, MiB, GiB or TiB.
type Size int64

// String returns the size in the format of UnmarshalText.
func (b Size) String() string {
	for _, u := range []struct {
		name  string
		scale Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b >= u.scale && b%u.scale == 0 {
			return fmt.Sprintf("%d%s", b/u.scale, u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

func (b *Size) UnmarshalText(text []byte) error {
	number := strings.TrimRight(string(text), "BKMGTi ")
	unit := strings.TrimSpace(string(text[len(number):])) // "" without a unit
	scale, ok := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
	n, err := strconv.ParseFloat(number, 64)
	isInRange := n >= 0 && n*scale <= 1<<62 // false for NaN
	if !ok || err != nil || !isInRange {
		return fmt.Errorf("want a size such as 512MiB, got %q", text)
	}
	*b = Size(n * scale)
	return nil
}
