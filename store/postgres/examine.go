package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// oldest is the oldest version of PostgreSQL on which the queries work, as server_version_num says it.
const oldest = 130000

// Examine is that of counter.Store: it asks for the version, the role, synchronous_commit, the clock and the
// permissions. A missing schema is an error.
func (s *Store) Examine(ctx context.Context) ([]counter.Finding, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	var version int
	var release, commit, user string
	var replica, may bool
	var at int64
	began := time.Now()
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('synchronous_commit'), current_user,
		pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', `+micros+`,
		(SELECT bool_and(has_table_privilege(t, p)) FROM unnest(ARRAY['strikes_doc', 'strikes_member']) t,
		unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p)`).
		Scan(&version, &release, &commit, &user, &replica, &at, &may)
	if err != nil {
		return nil, s.base.Failed(err)
	}
	server := sqlstore.Server{Addr: s.base.Addr, Release: "PostgreSQL " + release, User: user,
		Ahead: time.UnixMicro(at).Sub(began.Add(time.Since(began) / 2))}
	if version < oldest {
		server.TooOld = "PostgreSQL 13"
	}
	if replica {
		server.Primary = "the primary's address, or all addresses with target_session_attrs=read-write"
	}
	if !may {
		server.Denied = fmt.Sprintf(grants, pgx.Identifier{user}.Sanitize())
	}
	if commit == "off" {
		server.Volatile = "synchronous_commit is off"
		server.Durable = fmt.Sprintf("ALTER ROLE %s SET synchronous_commit = on", pgx.Identifier{user}.Sanitize())
	}
	return server.Findings(), nil
}
