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
