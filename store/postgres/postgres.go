// Package postgres keeps the counts of strikes in PostgreSQL 13 or later, with pgx.
//
// Make the tables once with "strikes store migrate" or [Migrate]. Then
//
//	store, err := postgres.Open("postgres://strikes@db.example/strikes", nil)
//	…
//	counts := counter.Over(store, nil) // for a consumer.Consumer
//
// A count is on the disk before its message is requeued if synchronous_commit is on, which is PostgreSQL's default.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Options of a Store. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Prefix separates the documents of brokers that share a database; if empty, counter.DefaultPrefix.
	Prefix string

	// Timeout is how long one call may take, beside its ctx; if zero, 2 seconds. The consumer repeats a call that failed.
	Timeout time.Duration
}

// Store is a counter.Store in PostgreSQL.
type Store struct {
	base sqlstore.Base
	pool *pgxpool.Pool

	stopCleaning func()
}

var _ counter.Store = (*Store)(nil)

// Open returns the Store at a URL such as postgres://user:password@host:5432/database?sslmode=verify-full. It does not
// connect yet: counter.Counter.Check does. Close ends its connections.
//
// The URL's parameters are those of libpq and pgxpool, such as sslmode, sslrootcert, connect_timeout (2 s unless given)
// and pool_max_conns (4 or the number of CPUs, if that is larger). A pgbouncer in transaction mode may be between: a
// connection through it gets no named prepared statements. On other connections Load and Save name their statements, so
// that the server keeps their plans. If default_query_exec_mode is given, that decides instead. Give it as
// cache_describe if a pooler gives its clients the server's own process numbers.
func Open(rawURL string, opts *Options) (*Store, error) {
	config, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	s := &Store{base: baseOf(config).With((*sqlstore.Options)(opts))}
	given := modeGiven(rawURL)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := s.base.Within(ctx) // ctx has no deadline: the pool goes on when the caller has left
		defer cancel()
		version, err := versionOf(ctx, conn)
		if err == nil {
			err = sqlstore.CheckVersion(version)
		}
		if err != nil || given {
			return err
		}
		var pid uint32
		err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		if err == nil && pid == conn.PgConn().PID() {
			conn.PgConn().CustomData()[names] = true
			_, err = conn.PgConn().Exec(ctx, sessionSQL).ReadAll()
		}
		return err
	}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, fmt.Errorf("postgres: %w", s.base.Failed(err))
	}
	s.stopCleaning = sqlstore.Clean(s.sweep(cleanDocs), s.sweep(cleanMembers))
	return s, nil
}

func baseOf(config *pgxpool.Config) sqlstore.Base {
	c := config.ConnConfig
	return sqlstore.Base{Addr: fmt.Sprintf("%s:%d", c.Host, c.Port), Password: c.Password,
		Database: cmp.Or(c.Database, c.User), // without one in the URL, the server takes the user's
		Faults:   faults, Code: codeOf, Gone: isGone}
}

// parse reads a URL.
func parse(rawURL string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(rawURL, "postgres://") && !strings.HasPrefix(rawURL, "postgresql://") {
		return nil, fmt.Errorf("postgres: %w", setting.New("URL", "another scheme", "postgres:// or postgresql://"))
	}
	if _, _, err := setting.ParseURL(rawURL); err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx would quote the text behind a colon of the password
	}
	config, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if !modeGiven(rawURL) {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !strings.Contains(rawURL, "connect_timeout=") {
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	if _, set := config.ConnConfig.RuntimeParams["application_name"]; !set {
		config.ConnConfig.RuntimeParams["application_name"] = "strikes"
	}
	return config, nil
}

// modeGiven reports whether a URL has default_query_exec_mode, which says how queries are sent.
func modeGiven(rawURL string) bool { return strings.Contains(rawURL, "default_query_exec_mode=") }

// names is the key, in the custom data of a connection, of a bool: whether the connection takes named statements. It
// does if it has a process of the server for itself. A pgbouncer tells it another process number than the server does.
const names = "strikes: takes named statements"

// sessionSQL has the server keep the plan of a named statement, because planning took longer than the Save. The server
// may have made the plan when the tables were empty, so the plan must use their indexes. It must use them in their
// order, because a bitmap scan of a page reads and sorts the whole set. A plan for any number of rows looks costly, and
// compiling it took longer than the statement. If the client's host vanishes during a Save, its session keeps its
// locks until the server notices. With these keepalives that takes 20 s instead of two hours.
const sessionSQL = `SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
	SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
	SET jit = off; SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2`

// run sends the queries of a batch in one round trip and one transaction. If the connection takes named statements, it
// prepares them first. It closes the connection if its session was reset, or if the server is read-only:
// another one may be the primary.
func (s *Store) run(ctx context.Context, queries ...*pgx.QueuedQuery) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	batch := &pgx.Batch{}
	if conn.Conn().PgConn().CustomData()[names] == true {
		for i := 0; err == nil && i < len(queries); i++ {
			_, err = conn.Conn().Prepare(ctx, queries[i].SQL, queries[i].SQL)
		}
	} else {
		batch.Queue(isolateSQL)
		batch.Queue(indexSQL)
	}
	if err == nil {
		batch.QueuedQueries = append(batch.QueuedQueries, queries...)
		err = conn.SendBatch(ctx, batch).Close() // the transaction ends here
	}
	if sqlstore.Matches(readOnly+" "+reset, codeOf(err)) {
		_ = conn.Conn().Close(ctx) // the pool makes another
	}
	return err
}

// Close ends the connections, and the goroutine that deletes expired rows.
func (s *Store) Close() error {
	s.stopCleaning()
	s.pool.Close()
	return nil
}

// micros is the time by the server's clock.
const micros = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

func namesOf(names []string) [][]byte {
	out := make([][]byte, len(names))
	for i, name := range names {
		out[i] = []byte(name)
	}
	return out
}
