package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Database is a kind of database: its SQL, its limits and its errors.
type Database struct {
	name      string
	longestID int    // in bytes
	insert    string // of a mark: it reports one row if the mark is new
	ends      bool   // insert takes the milliseconds after which an idle transaction is ended, or NULL
	forget    string // some marks of a queue that are older than so many seconds

	code  func(error) string // of the server's error; empty: it is not the server's
	hints map[string]string  // the remedies, by code

	cancelled string // the code of a statement that the client cancelled, where a driver returns it

	// passing are codes of errors that go by: another transaction or the server is the cause. One of less than four
	// characters stands for all that begin so.
	passing []string
}

// passes reports whether err is one that goes by, whatever the message is.
func (db *Database) passes(err error) bool {
	code := db.code(err)
	if code == "" {
		return false
	}
	return slices.ContainsFunc(db.passing, func(p string) bool {
		return p == code || len(p) < 4 && strings.HasPrefix(code, p)
	})
}

// undone are the texts of drivers, pgx and lib/pq, whose COMMIT was carried out as a ROLLBACK, because the work had
// passed over an error.
var undone = []string{
	"commit unexpectedly resulted in rollback", "could not complete operation in a failed transaction",
}

// endedByWork reports whether err says that the work has ended the transaction itself, or has left rows open, so that
// pgx can send nothing and closes the connection. Both texts are of pgx.
func endedByWork(err error) bool {
	return errors.Is(err, sql.ErrTxDone) || strings.Contains(err.Error(), "tx is closed") ||
		strings.Contains(err.Error(), "conn busy")
}

// cancelledByWork reports whether a context that the work made has ended: the handler's has not. Drivers close a
// connection whose statement is cancelled, so the ROLLBACK that follows fails as if the connection had been lost.
func (db *Database) cancelledByWork(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		db.cancelled != "" && db.code(err) == db.cancelled
}

// refused reports whether a COMMIT failed because of the work: a constraint that is checked last, an error of the
// database that the work passed over, an end of the transaction by the work, or rows that it left open. Other failures
// go by, or leave the COMMIT undecided.
func (db *Database) refused(err error) bool {
	if db.code(err) != "" {
		return !db.passes(err)
	}
	return endedByWork(err) || slices.ContainsFunc(undone, func(text string) bool {
		return strings.Contains(strings.ToLower(err.Error()), text) // older versions of lib/pq write "Could"
	})
}

// explain adds to an error its remedy.
func (db *Database) explain(err error) error {
	if hint := db.hints[db.code(err)]; hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// stateOf returns the SQLSTATE of PostgreSQL's drivers.
func stateOf(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}
