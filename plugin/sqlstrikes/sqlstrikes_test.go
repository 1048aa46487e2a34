package sqlstrikes

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// TestNotADatabase: an Inbox without a database, or with one that does not answer, counts no attempt.
func TestNotADatabase(t *testing.T) {
	closed, err := sql.Open("pgx", "postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for want, db := range map[string]*sql.DB{"DB is nil": nil, "asking the database for its version": closed} {
		in := &Inbox{DB: db, Queue: "invoices"}
		if _, err := in.Forget(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Forget: %v, want %q", err, want)
		}
	}
}
