package counter_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	store "github.com/strikesmq/strikes/store/postgres"
)

// TestOtherStores of package integration adds this file to package counter, with each of the other stores.
func init() {
	*counter.OtherStore = func(t testing.TB) counter.Store {
		s, err := store.Open(os.Getenv("STRIKES_STORE_URL"), &store.Options{
			Prefix: fmt.Sprint("test ", time.Now().UnixNano()), Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
