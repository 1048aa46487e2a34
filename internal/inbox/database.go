package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/sqlstore"
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
	passing   string // the codes of errors of which another transaction or the server is the cause, for sqlstore.Matches
}

// passes reports whether err is one that goes by, whatever the message is.
func (db *Database) passes(err error) bool { return sqlstore.Matches(db.passing, db.code(err)) }

// undone are the texts of drivers, pgx and lib/pq, whose COMMIT was carried out as a ROLLBACK, because the work had
// passed over an error.
var undone = []string{
	"commit unexpectedly resulted in rollback", "could not complete operation in a failed transaction",
}

// endedByWork reports whether err says that the work has ended the transaction itself, or has left rows open, so that
// pgx can send nothing and closes the connection. The first two texts are of pgx, the third is of lib/pq.
func endedByWork(err error) bool {
	text := err.Error()
	return errors.Is(err, sql.ErrTxDone) || strings.Contains(text, "tx is closed") ||
		strings.Contains(text, "conn busy") || strings.Contains(text, "unexpected transaction status idle")
}

// cancelledByWork reports whether a context that the work made has ended: the handler's has not. Drivers close a
// connection whose statement is cancelled, so the ROLLBACK that follows fails as if the connection had been lost.
func (db *Database) cancelledByWork(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		sqlstore.Matches(db.cancelled, db.code(err))
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
