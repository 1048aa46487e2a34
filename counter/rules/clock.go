package rules

import "time"

// MaxWaitMillis keeps a wait within a time.Duration.
const MaxWaitMillis = int64(1<<63-1) / int64(time.Millisecond)

// whole rounds a duration up to milliseconds.
func whole(d time.Duration) time.Duration { return time.Duration(CeilMillis(d)) * time.Millisecond }

// CeilMillis rounds up, so that a stored wait is never shorter than the requested one.
func CeilMillis(d time.Duration) int64 {
	ms := int64(max(d, 0) / time.Millisecond)
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return min(ms, MaxWaitMillis)
}

// Millis is a time in ms since 1970, as the store keeps it; 0 for the zero time.
func Millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// Flag is 1 for true and 0 for false, as the store keeps it.
func Flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// setBack moves times that are later than latest to it, because the clock was set back. It reports whether it moved
// any.
func setBack(latest time.Time, times ...*time.Time) (moved bool) {
	for _, at := range times {
		if at.After(latest) {
			*at, moved = latest, true
		}
	}
	return moved
}
