package mysql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"

	driverOf "github.com/go-sql-driver/mysql"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// The numbers of errors, as sqlstore.Matches reads them.
const (
	noTable  = "1146"
	denied   = "1142 1143 1227"
	readOnly = "1036 1290 1792 1836" // the server takes no writes
)

// faults are the numbers of the servers' errors.
var faults = []sqlstore.Fault{
	{Codes: "1045 1698", Do: "check the user and the password in the URL", Fault: counter.FaultDenied},
	{Codes: "1044", Do: "create the database <database> and grant it to the user, or correct its name in the URL",
		Fault: counter.FaultDenied},
	{Codes: "1049", Do: "create the database <database>, or correct its name in the URL", Fault: counter.FaultNotSetUp},
	{Codes: denied, Do: "if the tables are missing, run strikes store migrate as a user who may create them; " +
		"else run as an administrator: " + fmt.Sprintf(grants, "`<database>`", "<user>"), Fault: counter.FaultDenied},
	{Codes: noTable, Do: "run: strikes store migrate", Fault: counter.FaultNotSetUp},
	{Codes: "1071", Do: "use a server that was set up with innodb_page_size=16k, the default, or more",
		Fault: counter.FaultNotSetUp},
	{Codes: "1665", Do: "set binlog_format of the server to ROW or MIXED", Fault: counter.FaultDenied},
	{Codes: "1130", Do: "allow the user to connect from this host", Fault: counter.FaultDenied},
	{Codes: "1129", Do: "run on the server: mysqladmin flush-hosts", Fault: counter.FaultDenied},
	{Codes: readOnly, Do: "use the address of the primary", Fault: counter.FaultReadOnly},
	{Codes: "1969 3024", Fault: counter.FaultSlow}, // max_statement_time, max_execution_time
	{Codes: "1040 1203 1226", Do: "raise max_connections of the server, or lower pool_max_conns in the URL",
		Fault: counter.FaultBusy},
	{Codes: "1205 1213 3101", Fault: counter.FaultBusy}, // lock wait timeout, deadlock, conflict of group replication
	{Codes: "3100", Do: "if the server has left its replication group, use the address of another",
		Fault: counter.FaultFailover},
	{Codes: "1053 1317 1927 1047 3169 4031", Fault: counter.FaultFailover}, // stop, KILL, Galera is not ready, idle
	{Codes: "3 1021 1026 1114", Do: "free space on the server's disk", Fault: counter.FaultOutOfSpace},
	{Codes: "1037 1038 1041", Fault: counter.FaultOutOfSpace},
	{Codes: "1406", Do: "use a shorter prefix, id or generation", Fault: counter.FaultOther},
}

// codeOf is the number of the server's error; empty if err is none.
func codeOf(err error) string {
	var reply *driverOf.MySQLError
	if errors.As(err, &reply) {
		return strconv.Itoa(int(reply.Number))
	}
	return ""
}

func isGone(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, driverOf.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// transient are the errors after which the same Save may succeed:
//   - 1062: another process inserted the document
//   - 1213: a deadlock
//   - 1205: another process kept a lock too long
//   - 3101: in group replication, another server changed the rows
//   - 1020: in MariaDB, the row changed since it was read
const transient = "1062 1213 1205 3101 1020"

// passes reports whether nothing was saved, and the same Save may succeed now.
func passes(err error) bool {
	return sqlstore.Matches(transient, codeOf(err)) || errors.Is(err, errAgain)
}
