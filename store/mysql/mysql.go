// Package mysql keeps the counts of strikes in MariaDB 10.6 or later, or MySQL 8.0 or later, with go-sql-driver.
//
// Make the tables once with "strikes store migrate" or [Migrate]. Then
//
//	store, err := mysql.Open("mysql://strikes@db.example/strikes", nil)
//	…
//	counts := counter.Over(store, nil) // for a consumer.Consumer
//
// A count is on the disk before its message is requeued if innodb_flush_log_at_trx_commit is 1, which is the default.
package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	driverOf "github.com/go-sql-driver/mysql"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Options of a Store. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Prefix separates the documents of brokers that share a database; if empty, counter.DefaultPrefix.
	Prefix string

	// Timeout is how long one call may take, beside its ctx; if zero, 2 seconds. The consumer repeats a call that failed.
	Timeout time.Duration
}

// Store is a counter.Store in MariaDB or MySQL.
type Store struct {
	base sqlstore.Base
	db   *sql.DB

	stopCleaning func()
}

var _ counter.Store = (*Store)(nil)

// Open returns the Store at a URL such as mysql://user:password@host:3306/database?tls=true. The scheme mariadb means
// the same. Open does not connect yet: counter.Counter.Check does. Close ends its connections.
//
// The URL's parameters are
//   - tls: true, skip-verify (trusts any certificate), preferred (TLS if the server has it, and any certificate), or
//     false, the default;
//   - ssl-ca, ssl-cert, ssl-key: files of trusted authorities, and of the client's certificate and its key; they turn
//     tls on;
//   - socket: the path of a Unix socket, in place of the host;
//   - connect_timeout: such as 5s; if absent, 2s;
//   - pool_max_conns: connections at most; if absent, 4 or the number of CPUs, if that is larger.
func Open(rawURL string, opts *Options) (*Store, error) {
	config, conns, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	s := &Store{base: baseOf(config).With((*sqlstore.Options)(opts))}
	// A statement that its caller has given up does not wait for a lock for longer.
	config.Params["innodb_lock_wait_timeout"] = strconv.Itoa(int(math.Ceil(s.base.Timeout.Seconds())))
	connect, err := driverOf.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", s.base.Failed(err))
	}
	s.db = sql.OpenDB(connector{connect, s})
	s.db.SetMaxOpenConns(conns)
	s.db.SetMaxIdleConns(conns)
	s.db.SetConnMaxIdleTime(idleTimeout / 2)
	s.stopCleaning = sqlstore.Clean(s.sweep(docs), s.sweep(members))
	return s, nil
}

func baseOf(config *driverOf.Config) sqlstore.Base {
	return sqlstore.Base{Addr: config.Addr, Database: config.DBName, Password: config.Passwd, Faults: faults,
		Code: codeOf, Gone: isGone}
}

// connector makes connections to a database with the schema.
type connector struct {
	driver.Connector
	s *Store
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := c.s.base.Within(ctx) // the pool's own ctx has no deadline
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(ctx, conn)
	if err == nil {
		err = sqlstore.CheckVersion(version)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// versionOf returns the version of the schema; empty if a table is missing. A user without a permission on a table does
// not see its comment. So the query names both tables, and fails for that user.
func versionOf(ctx context.Context, conn driver.Conn) (string, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT table_comment FROM information_schema.tables "+
		"WHERE table_schema = database() AND table_name = 'strikes_doc' "+
		"AND NOT EXISTS (SELECT 1 FROM strikes_doc, strikes_member WHERE FALSE)", nil)
	if codeOf(err) == noTable {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found := make([]driver.Value, 1)
	err = rows.Next(found)
	if closed := rows.Close(); err == nil || errors.Is(err, io.EOF) {
		err = closed
	}
	if comment, _ := found[0].([]byte); len(comment) > 0 {
		return string(comment), err
	}
	return "no comment", err
}

// Close ends the connections, and the goroutine that deletes expired rows.
func (s *Store) Close() error {
	s.stopCleaning()
	_ = s.db.Close() // an error says that the server had ended a connection first
	return nil
}

// micros is the time by the server's clock, whatever the time zone is.
const micros = `timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))`
