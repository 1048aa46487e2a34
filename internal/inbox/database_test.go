package inbox

import (
	"errors"
	"testing"
)

// TestACommitThatWasUndone: the work passed over an error, so the COMMIT was carried out as a ROLLBACK. Only the text
// of the driver's error says so.
func TestACommitThatWasUndone(t *testing.T) {
	for driver, text := range map[string]string{
		"pgx":             "commit unexpectedly resulted in rollback",
		"lib/pq":          "pq: could not complete operation in a failed transaction",
		"an older lib/pq": "pq: Could not complete operation in a failed transaction",
	} {
		if !PostgreSQL.refused(errors.New(text)) {
			t.Errorf("%s: the failure is not counted, so the message is never dead-lettered", driver)
		}
	}
	if !PostgreSQL.refused(errors.New("conn busy")) {
		t.Error("pgx: a COMMIT behind rows that the work left open is not counted, so the message comes back without end")
	}
	if PostgreSQL.refused(errors.New("driver: bad connection")) {
		t.Error("a lost connection counts as a failure of the message")
	}
}

type stateError string

func (e stateError) Error() string    { return "ERROR (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

// TestALimitOfAStatement: a message that exceeds a limit such as temp_file_limit does so each time. So it is counted,
// unlike one that meets a full disk.
func TestALimitOfAStatement(t *testing.T) {
	for state, counted := range map[stateError]bool{"53400": true, "53100": false, "53300": false} {
		if got := PostgreSQL.refused(state); got != counted {
			t.Errorf("%s is counted: %v", state, got)
		}
	}
}
