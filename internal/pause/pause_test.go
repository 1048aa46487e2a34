package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ends := func(late context.Context, after time.Duration) {
			t.Helper()
			if <-late.Done(); time.Since(began) != after {
				t.Errorf("the context ended after %v, want %v", time.Since(began), after)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		short, end := Outlive(ctx, time.Second, 30*time.Second)
		defer end()
		ends(short, 30*time.Second)
		late, end := Outlive(ctx, time.Second, time.Hour)
		defer end()
		ends(late, time.Minute+time.Second)
		ended, end := Outlive(t.Context(), time.Second, time.Hour)
		end()
		ends(ended, time.Minute+time.Second) // now
	})
}

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if !For(ctx, time.Second) || time.Since(began) != time.Second {
			t.Errorf("a second took %v", time.Since(began))
		}
		if For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("ctx did not end the pause within %v", time.Since(began))
		}
		if For(ctx, 0) {
			t.Error("a pause succeeded although ctx was done")
		}
	})
}
