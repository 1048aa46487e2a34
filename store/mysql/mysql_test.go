package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/storetest"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

var databases atomic.Int64

// database makes a database of its own, and returns its URL.
func database(t testing.TB) string { return databaseOn(t, servertest.MariaDB(t)) }

func databaseOn(t testing.TB, addr string) string {
	t.Helper()
	name := fmt.Sprintf("strikes_%d_%d", os.Getpid(), databases.Add(1))
	do(t, addr, "CREATE DATABASE "+name)
	return "mysql://root:@" + addr + "/" + name
}

// do runs statements as root.
func do(t testing.TB, addr string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// migrated is the URL of a database with the schema.
func migrated(t testing.TB) string {
	t.Helper()
	url := database(t)
	for range 2 { // the second changes nothing
		if err := Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(url, &Options{Timeout: 20e9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestStore is the test of a Store.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) counter.Store { return open(t, migrated(t)) })
}
