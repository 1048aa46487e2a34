package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
