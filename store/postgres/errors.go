package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// faults are the codes of PostgreSQL's errors, by their beginnings.
var faults = []struct {
	code, do string
	fault    counter.StoreFault
}{
	{"28", "check the user and the password in the URL", counter.FaultDenied},
	{"42501", "if the tables are missing, run strikes store migrate as a user who may create them; else run as their " +
		"owner: " + fmt.Sprintf(Grants, "<user>"), counter.FaultDenied},
	{"3D000", "create the database <database>, or correct its name in the URL", counter.FaultNotSetUp},
	{"42P01", "run: strikes store migrate", counter.FaultNotSetUp},
	{unknownStatement, unnamed, counter.FaultOther},
	{knownStatement, unnamed, counter.FaultOther},
	{readOnly, "use the address of the primary, or target_session_attrs=read-write with all addresses",
		counter.FaultReadOnly},
	{"57P03", "wait until the server has started", counter.FaultLoading},
	{"57014", "", counter.FaultSlow}, // statement_timeout
	{"57P", "", counter.FaultFailover},
	{"08", "", counter.FaultUnreachable},
	{"53300", "raise max_connections, or lower pool_max_conns in the URL", counter.FaultBusy},
	{"53100", "free space on the server's disk", counter.FaultOutOfMemory},
	{"53", "", counter.FaultOutOfMemory},
	{"40", "", counter.FaultBusy}, // a deadlock or a serialization failure
	{"55P03", "", counter.FaultBusy},
}

// readOnly is the code of a server that takes no writes.
const readOnly = "25006"

// The codes of errors that show that a pooler has reset a session, or has given it to another client.
const (
	unknownStatement = "26000" // a named statement is not prepared on the connection
	knownStatement   = "42P05" // a named statement is prepared already
	settingsLost     = "22012" // a division by zero: lockSQL has found the settings of sessionSQL undone
)

// unnamed is the advice where connections share the statements that one of them prepared, as behind pgbouncer.
const unnamed = "remove default_query_exec_mode from the URL: a pool in transaction mode keeps no named statements"

// codeOf is that of the server's error; empty if err is none.
func codeOf(err error) string {
	var reply *pgconn.PgError
	if errors.As(err, &reply) {
		return reply.Code
	}
	return ""
}

// failed returns err as a counter.StoreError, without the password. It leaves undecided whether a Save was done.
func (s *Store) failed(err error) error {
	var known counter.StoreFault
	do := ""
	if code := codeOf(err); code != "" {
		known = counter.FaultOther
		for _, f := range faults {
			if strings.HasPrefix(code, f.code) {
				known, do = f.fault, strings.ReplaceAll(f.do, "<database>", s.database)
				break
			}
		}
	}
	gone := err != nil && (errors.As(err, new(*pgconn.ConnectError)) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "closed") || strings.Contains(err.Error(), "EOF"))
	return sqlstore.Failed(err, known, do, gone, s.secret)
}

// passes reports whether an error says that nothing was saved, and that the same Save may succeed now: two processes
// inserted the same document, or waited for each other.
func passes(err error) bool {
	code := codeOf(err)
	return code == "23505" || strings.HasPrefix(code, "40")
}
