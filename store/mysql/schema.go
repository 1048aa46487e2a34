package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	driverOf "github.com/go-sql-driver/mysql"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Version is the version of the schema that this package reads and writes. The comment of the table strikes_doc has it.
const Version = sqlstore.Version

// Schema makes the tables, and changes nothing if they are there. The table with the version comes last, because each
// CREATE commits by itself.
//
// Times are in milliseconds since 1970; 0 means never. A document of version 0 is absent.
const Schema = `CREATE TABLE IF NOT EXISTS strikes_member (
	queue varbinary(1024) NOT NULL, set_name varbinary(512) NOT NULL, name varbinary(1024) NOT NULL, score bigint NOT NULL,
	expires bigint NOT NULL, PRIMARY KEY (queue, set_name, name), KEY strikes_member_page (queue, set_name, score, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS strikes_doc (
	queue varbinary(1024) NOT NULL, name varbinary(1024) NOT NULL, data longblob NOT NULL, version bigint NOT NULL,
	expires bigint NOT NULL, PRIMARY KEY (queue, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = '` + Version + `';
`

// grants are the statements that give the user of a consumer or an operator its permissions; %[1]s is the database and
// %[2]s the user.
const grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.strikes_doc TO %[2]s; " +
	"GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.strikes_member TO %[2]s"

// Migrate makes the schema in the database of a URL, whose user may create tables. It does nothing if the schema is
// there, and refuses one that a newer strikes made.
func Migrate(ctx context.Context, rawURL string) error {
	config, _, err := parse(rawURL)
	if err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	base := baseOf(config)
	connect, err := driverOf.NewConnector(config)
	if err != nil {
		return fmt.Errorf("mysql: migrating: %w", base.Failed(err))
	}
	db := sql.OpenDB(connect)
	defer db.Close()
	if err := migrate(ctx, db); err != nil {
		return fmt.Errorf("mysql: migrating: %w", base.Failed(err))
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var version string
	if err := conn.Raw(func(c any) error {
		version, err = versionOf(ctx, c.(driver.Conn))
		return err
	}); err != nil {
		return err
	}
	if version != "" {
		return sqlstore.CheckVersion(version)
	}
	_, err = conn.ExecContext(ctx, Schema)
	return err
}
