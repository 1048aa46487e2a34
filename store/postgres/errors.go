package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

var faults = []sqlstore.Fault{
	{Codes: "28*", Do: "check the user and the password in the URL", Fault: counter.FaultDenied},
	{Codes: "42501", Do: "if the tables are missing, run strikes store migrate as a user who may create them; " +
		"else run as their owner: " + fmt.Sprintf(grants, "<user>"), Fault: counter.FaultDenied},
	{Codes: "3D000", Do: "create the database <database>, or correct its name in the URL", Fault: counter.FaultNotSetUp},
	{Codes: "42P01", Do: "run: strikes store migrate", Fault: counter.FaultNotSetUp},
	{Codes: reset, Fault: counter.FaultOther, Do: "a pooler has reset the session, or has given it to another client: " +
		"give the URL default_query_exec_mode=cache_describe"},
	{Codes: readOnly, Do: "use the address of the primary, or target_session_attrs=read-write with all addresses",
		Fault: counter.FaultReadOnly},
	{Codes: "57P03", Do: "wait until the server has started", Fault: counter.FaultLoading},
	{Codes: "57014 25P04", Fault: counter.FaultSlow}, // statement_timeout, transaction_timeout
	{Codes: "57P*", Fault: counter.FaultFailover},
	{Codes: "08*", Fault: counter.FaultUnreachable},
	{Codes: "53300", Do: "raise max_connections, or lower pool_max_conns in the URL", Fault: counter.FaultBusy},
	{Codes: "53100", Do: "free space on the server's disk", Fault: counter.FaultOutOfSpace},
	{Codes: "53*", Fault: counter.FaultOutOfSpace},
	{Codes: "40* 55P03", Fault: counter.FaultBusy}, // a deadlock or a serialization failure; lock_timeout
}

// readOnly is the code of a server that takes no writes.
const readOnly = "25006"

// reset has the codes of a session that a pooler has reset or shared. A named statement is not prepared, or is already,
// or lockSQL divided by zero because the settings of sessionSQL are undone. Nothing was saved.
const reset = "26000 42P05 22012"

// codeOf is that of the server's error; empty if err is none.
func codeOf(err error) string {
	var reply *pgconn.PgError
	if errors.As(err, &reply) {
		return reply.Code
	}
	return ""
}

func isGone(err error) bool {
	return errors.As(err, new(*pgconn.ConnectError)) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "closed") || strings.Contains(err.Error(), "EOF")
}

// passes reports whether an error says that nothing was saved, and that the same Save may succeed now: two processes
// inserted the same document, or waited for each other.
func passes(err error) bool { return sqlstore.Matches("23505 40*", codeOf(err)) }
