package mysql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	driverOf "github.com/go-sql-driver/mysql"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

const noTable = 1146

// readOnly are the numbers of a server that takes no writes.
var readOnly = []uint16{1290, 1792, 1836}

// faults are the numbers of the servers' errors.
var faults = []struct {
	numbers []uint16
	do      string
	fault   counter.StoreFault
}{
	{[]uint16{1045, 1698}, "check the user and the password in the URL", counter.FaultDenied},
	{[]uint16{1044}, "create the database <database> and grant it to the user, or correct its name in the URL",
		counter.FaultDenied},
	{[]uint16{1049}, "create the database <database>, or correct its name in the URL", counter.FaultNotSetUp},
	{[]uint16{1142, 1143, 1227}, "if the tables are missing, run strikes store migrate as a user who may create them; " +
		"else run as an administrator: " + fmt.Sprintf(Grants, "`<database>`", "<user>"), counter.FaultDenied},
	{[]uint16{noTable}, "run: strikes store migrate", counter.FaultNotSetUp},
	{[]uint16{1665}, "set binlog_format of the server to ROW or MIXED", counter.FaultDenied},
	{[]uint16{1130}, "allow the user to connect from this host", counter.FaultDenied},
	{[]uint16{1129}, "run on the server: mysqladmin flush-hosts", counter.FaultDenied},
	{readOnly, "use the address of the primary", counter.FaultReadOnly},
	{[]uint16{1969, 3024}, "", counter.FaultSlow}, // max_statement_time, max_execution_time
	{[]uint16{1040, 1203, 1226}, "raise max_connections of the server, or lower pool_max_conns in the URL",
		counter.FaultBusy},
	{[]uint16{1205, 1213, 3101}, "", counter.FaultBusy}, // lock wait timeout, deadlock, conflict of group replication
	{[]uint16{3100}, "if the server has left its replication group, use the address of another", counter.FaultFailover},
	{[]uint16{1053, 1317, 1927, 1047, 3169, 4031}, "", counter.FaultFailover}, // stop, KILL, Galera is not ready, idle
	{[]uint16{3, 1021, 1026, 1114}, "free space on the server's disk", counter.FaultOutOfMemory},
	{[]uint16{1037, 1038, 1041}, "", counter.FaultOutOfMemory},
}

// number is that of the server's error; 0 if err is none.
func number(err error) uint16 {
	var reply *driverOf.MySQLError
	if errors.As(err, &reply) {
		return reply.Number
	}
	return 0
}

// failed returns err as a counter.StoreError, without the password. It leaves undecided whether a Save was done.
func (s *Store) failed(err error) error {
	var known counter.StoreFault
	do := ""
	if n := number(err); n > 0 {
		known = counter.FaultOther
		for _, f := range faults {
			if slices.Contains(f.numbers, n) {
				known, do = f.fault, strings.ReplaceAll(f.do, "<database>", s.database)
			}
		}
	}
	gone := errors.Is(err, driver.ErrBadConn) || errors.Is(err, driverOf.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
	return sqlstore.Failed(err, known, do, gone, s.secret)
}

// passes reports whether an error says that nothing was saved, and that the same Save may succeed now.
func passes(err error) bool {
	switch number(err) {
	case 1062, // another process has inserted a document
		1213, 1205, // a deadlock; another process has kept a lock for long
		3101, // group replication: another server has changed the rows
		1020: // MariaDB: a row has changed since it was read
		return true
	}
	return errors.Is(err, errAgain)
}
