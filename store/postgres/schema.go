package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Version is the version of the schema that this package reads and writes. The comment of the table strikes_doc has it.
const Version = sqlstore.Version

// Schema makes the tables, and changes nothing if they are there. Migrate runs it in one transaction.
//
// Times are in milliseconds since 1970; 0 means never. No index has the expiry or the version, so that PostgreSQL can
// update a document within its page (HOT). The index of pages is partial, so that PostgreSQL does not look for one
// member in it, which reads the whole set.
const Schema = `CREATE TABLE IF NOT EXISTS strikes_doc (
	queue bytea NOT NULL, name bytea NOT NULL, data bytea NOT NULL, version bigint NOT NULL,
	expires bigint NOT NULL, sums jsonb NOT NULL DEFAULT '{}', PRIMARY KEY (queue, name)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS strikes_member (
	queue bytea NOT NULL, "set" bytea NOT NULL, name bytea NOT NULL, score bigint NOT NULL,
	expires bigint NOT NULL, PRIMARY KEY (queue, "set", name)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS strikes_member_page ON strikes_member (queue, "set", score DESC, name DESC)
	WHERE ` + anyScore + `;
COMMENT ON TABLE strikes_doc IS '` + Version + `';
`

// anyScore is true of each member. A query uses the index of pages only if it says so.
const anyScore = "score >= '-9223372036854775808'"

// grants is the statement that gives the user of a consumer or an operator its permissions; %s is the user's name.
const grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON strikes_doc, strikes_member TO %s"

// migrating is the key of the advisory lock that lets one process migrate at a time.
const migrating = 0x737472696b6573

// Migrate makes the schema in the database of a URL, whose user must own it or may create tables. It does nothing if
// the schema is there, and refuses one that a newer strikes made.
func Migrate(ctx context.Context, rawURL string) error {
	config, err := parse(rawURL)
	if err != nil {
		return err
	}
	base := baseOf(config)
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("postgres: migrating: %w", base.Failed(err))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it is given up
	// The query for the version sees what was committed while the lock was waited for.
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrating)); err != nil {
			return err
		}
		switch version, err := versionOf(ctx, tx); {
		case err != nil:
			return err
		case version != "":
			return sqlstore.CheckVersion(version)
		}
		_, err := tx.Exec(ctx, Schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: migrating: %w", base.Failed(err))
	}
	return nil
}

// versionOf returns the version of the schema; empty if there is none, or a table of it is missing. It looks for the
// table in pg_class, because to_regclass alone also sees a table that was made since the query began. The query does
// not see the comment of such a table.
func versionOf(ctx context.Context, in interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version string, err error) {
	err = in.QueryRow(ctx, `SELECT coalesce((SELECT coalesce(obj_description(oid, 'pg_class'), 'no comment') FROM pg_class
		WHERE oid = to_regclass('strikes_doc') AND (to_regclass('strikes_member') IS NOT NULL OR
			obj_description(oid, 'pg_class') IS DISTINCT FROM '`+Version+`')), '')`).Scan(&version)
	return version, err
}
