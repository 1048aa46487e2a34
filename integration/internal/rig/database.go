package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "github.com/go-sql-driver/mysql" // for database/sql
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/store/mysql"
	"github.com/strikesmq/strikes/store/postgres"
)

// Database is a kind of store in a module of its own.
type Database struct {
	Start   func(context.Context, servers.DatabaseOptions) (*servers.Database, error)
	url     string // with %s in place of the address
	migrate func(ctx context.Context, url string) error

	driver, source string // for database/sql, with %s in place of the address
	sessions, end  string // statements: one lists the numbers of the consumers' sessions, the other ends a session
	forget         []string
	lasting        []string // arguments with which no commit is lost when the server is killed
}

// Databases are the kinds by their names, which are the schemes of their URLs.
var Databases = map[string]Database{
	"postgres": {servers.StartPostgreSQL, "postgres://postgres@%s/postgres?sslmode=disable", postgres.Migrate,
		"pgx", "postgres://postgres@%s/postgres?sslmode=disable",
		"SELECT pid FROM pg_stat_activity WHERE application_name = 'strikes'", "SELECT pg_terminate_backend(%d)",
		[]string{"DELETE FROM strikes_doc", "DELETE FROM strikes_member"}, nil},
	"mysql": {servers.StartMariaDB, "mysql://root:@%s/strikes", mysql.Migrate, "mysql", "root@tcp(%s)/",
		"SELECT id FROM information_schema.processlist WHERE db = 'strikes'", "KILL %d",
		[]string{"DELETE FROM strikes.strikes_doc", "DELETE FROM strikes.strikes_member"},
		[]string{"--innodb-flush-log-at-trx-commit=2"}},
}

// Prepare makes the tables on the server at an address, and returns the URL of the store.
func (d Database) Prepare(ctx context.Context, addr string) (rawURL string, err error) {
	rawURL = fmt.Sprintf(d.url, addr)
	return rawURL, d.migrate(ctx, rawURL)
}

// empty makes the store forget everything.
func (d Database) empty(ctx context.Context, addr string) error {
	db, err := sql.Open(d.driver, fmt.Sprintf(d.source, addr))
	if err != nil {
		return err
	}
	for _, s := range d.forget {
		_, failed := db.ExecContext(ctx, s)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, db.Close())
}

// Terminate ends the sessions of consumers, whatever they do.
func (d Database) Terminate(ctx context.Context, addr string) error {
	db, err := sql.Open(d.driver, fmt.Sprintf(d.source, addr))
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, d.sessions)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := int64(0); rows.Next(); {
		if err := rows.Scan(&n); err != nil {
			return err
		}
		_, _ = db.ExecContext(ctx, fmt.Sprintf(d.end, n)) // it may have ended meanwhile
	}
	return rows.Err()
}

// Dial returns a Counter at the URL of a store of any kind.
func Dial(rawURL, prefix string) (*counter.Counter, error) {
	var store counter.Store
	var err error
	switch scheme, _, _ := strings.Cut(rawURL, ":"); scheme {
	case "postgres":
		store, err = postgres.Open(rawURL, &postgres.Options{Prefix: prefix})
	case "mysql":
		store, err = mysql.Open(rawURL, &mysql.Options{Prefix: prefix})
	default:
		return counter.Dial(rawURL, &counter.Options{Prefix: prefix})
	}
	if err != nil {
		return nil, err
	}
	return counter.Over(store, nil), nil
}
