package counter_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/store/mysql"
	"github.com/strikesmq/strikes/store/postgres"
)

// TestOtherStores of package integration adds this file to package counter.
func init() {
	*counter.OtherStore = func(t testing.TB) (s counter.Store) {
		url, prefix, err := os.Getenv("STRIKES_STORE_URL"), fmt.Sprint("test ", time.Now().UnixNano()), error(nil)
		if strings.HasPrefix(url, "mysql:") {
			s, err = mysql.Open(url, &mysql.Options{Prefix: prefix, Timeout: 20 * time.Second})
		} else {
			s, err = postgres.Open(url, &postgres.Options{Prefix: prefix, Timeout: 20 * time.Second})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
