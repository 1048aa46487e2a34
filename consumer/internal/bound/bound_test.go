package bound

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwaitIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name       string
		takes      time.Duration // the broker
		stop       time.Duration // when ctx is done
		after      time.Duration // answered returns
		unanswered bool
	}{
		{"in time", time.Second, time.Hour, time.Second, false},
		{"soon after the stop", 5 * time.Second, 4500 * time.Millisecond, 5 * time.Second, false},
		{"long after the stop", time.Hour, 5 * time.Second, 5*time.Second + LastReply, true},
		{"never", time.Hour, 2 * time.Hour, 10*time.Second + LastReply, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.stop)
				defer cancel()
				began, late := time.Now(), 0
				got, err := Await(ctx, 10*time.Second, func() (int, error) {
					time.Sleep(tc.takes)
					return 7, nil
				}, func(n int) { late = n })
				if took := time.Since(began); took != tc.after || errors.Is(err, ErrNoReply) != tc.unanswered ||
					(err == nil) != (got == 7) {
					t.Errorf("%d, %v after %v; want %v", got, err, took, tc.after)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if tc.unanswered != (late == 7) {
					t.Errorf("late got %d", late)
				}
			})
		})
	}
}

// TestAwaitSurvivesGoexit: a Check in a test may call FailNow.
func TestAwaitSurvivesGoexit(t *testing.T) {
	_, err := Await(t.Context(), 10*time.Second, func() (int, error) { runtime.Goexit(); return 0, nil }, func(int) {})
	if err == nil || !strings.Contains(err.Error(), "goroutine") {
		t.Errorf("%v", err)
	}
}
