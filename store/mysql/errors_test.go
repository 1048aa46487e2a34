package mysql

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driverOf "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

var someQueue = counter.Queue{VHost: "/", Name: "q"}

func saveOne(s *Store, ctx context.Context) error {
	_, err := s.Save(ctx, someQueue, counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x", Any: true}}})
	return err
}

// expect fails the test unless err names the fault and the remedy, without a password.
func expect(t *testing.T, name string, err error, fault counter.StoreFault, says string) {
	t.Helper()
	var failed *counter.StoreError
	if !errors.As(err, &failed) || failed.Fault != fault || !strings.Contains(err.Error(), says) ||
		strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: got %v, want %q and %q", name, err, fault, says)
	}
}

// giveAccounts makes the server's system tables, which a private MariaDB lacks, and a user root without a password.
// From then on users need passwords and grants. MySQL has them already.
func giveAccounts(t *testing.T, addr string) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/?multiStatements=true")
	need(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	var share, version string
	err = db.QueryRowContext(t.Context(), "SELECT @@character_sets_dir, version()").Scan(&share, &version)
	need(t, err)
	if !strings.Contains(version, "MariaDB") {
		return
	}
	run := func(statements string) {
		t.Helper()
		need(t, errOf(db.ExecContext(t.Context(), statements)))
	}
	run("CREATE DATABASE mysql; USE mysql; SET @auth_root_socket = NULL, @current_hostname = 'localhost'")
	for _, name := range []string{"mysql_system_tables.sql", "mysql_system_tables_data.sql"} {
		script, err := os.ReadFile(filepath.Join(share, "..", name))
		need(t, err)
		run(string(script))
	}
	run("FLUSH PRIVILEGES; GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION; GRANT ALL ON *.* TO root@localhost " +
		"WITH GRANT OPTION")
}

// TestErrors: each names the fault and the remedy, and none has the password.
func TestErrors(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{})
	giveAccounts(t, server.Addr)
	url := databaseOn(t, server.Addr)
	name := url[strings.LastIndex(url, "/")+1:]
	need(t, Migrate(t.Context(), url))
	do(t, server.Addr, "CREATE USER reader IDENTIFIED BY 's3cret'", "GRANT SELECT ON "+name+".* TO reader",
		"CREATE USER stranger IDENTIFIED BY 's3cret'", "CREATE DATABASE bare", "GRANT ALL ON bare.* TO reader",
		"CREATE USER single IDENTIFIED BY 's3cret' WITH MAX_USER_CONNECTIONS 1", "GRANT SELECT ON "+name+".* TO single")
	as := func(user, database string) string { return "mysql://" + user + "@" + server.Addr + "/" + database }
	silent := silentServer(t)
	for name, tc := range map[string]struct {
		url   string
		fault counter.StoreFault
		says  string
	}{
		"missing schema":   {as("reader:s3cret", "bare"), counter.FaultNotSetUp, "run: strikes store migrate"},
		"wrong password":   {as("reader:s3cret2", name), counter.FaultDenied, "check the user and the password"},
		"no such database": {as("root:", "none"), counter.FaultNotSetUp, "create the database none, or"},
		"another's":        {as("stranger:s3cret", name), counter.FaultDenied, "grant it to the user"},
		"no permission":    {as("reader:s3cret", name), counter.FaultDenied, "GRANT SELECT, INSERT, UPDATE, DELETE ON"},
		"no server":        {"mysql://root:s3cret@127.0.0.1:1/x", counter.FaultUnreachable, "refused"},
		"TLS":              {url + "?tls=true", counter.FaultOther, "TLS"},
		"silent server":    {"mysql://root:s3cret@" + silent + "/x", counter.FaultSlow, "deadline"},
	} {
		s, err := Open(tc.url, &Options{Timeout: time.Second})
		need(t, err)
		expect(t, name, saveOne(s, t.Context()), tc.fault, tc.says)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	busy := open(t, as("single:s3cret", name))
	conn, err := busy.db.Conn(t.Context())
	need(t, err)
	expect(t, "too many connections", saveOne(busy, t.Context()), counter.FaultBusy, "raise max_connections")
	_ = conn.Close()

	found, err := open(t, as("reader:s3cret", name)).Examine(t.Context())
	if err != nil || len(found) != 2 || found[0].Code != "store-acl" || found[1].Code != "store-volatile" {
		t.Fatalf("%+v, %v", found, err)
	}
	_, grants, _ := strings.Cut(found[0].Fix, ": ")
	do(t, server.Addr, append(strings.Split(grants, "; "), "SET GLOBAL innodb_flush_log_at_trx_commit = 1")...)
	reader := open(t, as("reader:s3cret", name))
	if found, err = reader.Examine(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("with %s: %+v, %v", grants, found, err)
	}
	if err := saveOne(reader, t.Context()); err != nil {
		t.Error(err)
	}
	do(t, server.Addr, "SET GLOBAL read_only = ON")
	expect(t, "replica", saveOne(reader, t.Context()), counter.FaultReadOnly, "use the address of the primary")
	if found, err = reader.Examine(t.Context()); err != nil || len(found) != 1 || found[0].Code != "store-replica" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNumbers: errors that no server of the tests provokes.
func TestNumbers(t *testing.T) {
	for number, want := range map[uint16]struct {
		fault  counter.StoreFault
		passes bool
	}{
		3100: {counter.FaultFailover, false},
		3101: {counter.FaultBusy, true},
		1114: {counter.FaultOutOfSpace, false},
		1036: {counter.FaultReadOnly, false},
		1050: {counter.FaultOther, false},
	} {
		err := &driverOf.MySQLError{Number: number}
		expect(t, fmt.Sprint(number), (&sqlstore.Base{Faults: faults, Code: codeOf}).Failed(err), want.fault, "")
		if passes(err) != want.passes {
			t.Errorf("%d passes: %v", number, !want.passes)
		}
	}
}

// TestAnotherPrimary: a connection to a server that has become read-only is given up, because its address may lead to
// another primary by now.
func TestAnotherPrimary(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{})
	url := databaseOn(t, server.Addr)
	need(t, Migrate(t.Context(), url))
	do(t, server.Addr, "SET GLOBAL TRANSACTION READ ONLY") // for new connections
	s := open(t, url)
	expect(t, "read-only", saveOne(s, t.Context()), counter.FaultReadOnly, "use the address of the primary")
	do(t, server.Addr, "SET GLOBAL TRANSACTION READ WRITE")
	var err error
	for range 5 { // the goroutine that deletes rows may have another such connection
		if err = saveOne(s, t.Context()); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestVersions: the schema of another strikes is refused, by Migrate if it is newer.
func TestVersions(t *testing.T) {
	for version, says := range map[string]string{"strikes 0": "run: strikes store migrate", "strikes 2": "upgrade this " +
		"program", "": "comment again"} {
		url := migrated(t)
		name := url[strings.LastIndex(url, "/")+1:]
		do(t, servertest.MariaDB(t), "ALTER TABLE "+name+".strikes_doc COMMENT = '"+version+"'")
		expect(t, version, saveOne(open(t, url), t.Context()), counter.FaultNotSetUp, says)
		if err := Migrate(t.Context(), url); !errors.Is(err, sqlstore.ErrSchema) {
			t.Errorf("%s: got %v, want %v", version, err, sqlstore.ErrSchema)
		}
	}
}

// TestMissingTable: the command that an error names makes a table that is missing.
func TestMissingTable(t *testing.T) {
	for _, table := range []string{"strikes_doc", "strikes_member"} {
		url := migrated(t)
		do(t, servertest.MariaDB(t), "DROP TABLE "+url[strings.LastIndex(url, "/")+1:]+"."+table)
		expect(t, table, saveOne(open(t, url), t.Context()), counter.FaultNotSetUp, "run: strikes store migrate")
		need(t, Migrate(t.Context(), url))
		need(t, errOf(open(t, url).Save(t.Context(), someQueue, counter.Change{
			Docs: []counter.Doc{{Name: "r:a", Data: "x"}}, Sets: []counter.Member{{Set: "index", Name: "a"}}})))
	}
}

// TestMigrations: a process that connects while others migrate finds the tables, or is told to migrate.
func TestMigrations(t *testing.T) {
	for range 20 {
		url := database(t)
		var processes errgroup.Group
		for range 4 {
			s := open(t, url)
			processes.Go(func() error { return Migrate(t.Context(), url) })
			processes.Go(func() error {
				err := saveOne(s, t.Context())
				if err != nil && !strings.Contains(err.Error(), "run: strikes store migrate") {
					return err
				}
				return nil
			})
		}
		need(t, processes.Wait())
	}
}

// TestFull: a disk without room is an error that says so, and the documents stay as they were.
func TestFull(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: []string{"--innodb-file-per-table=0",
		"--innodb-data-file-path=ibdata1:12M:autoextend:max:14M"}})
	url := databaseOn(t, server.Addr)
	need(t, Migrate(t.Context(), url))
	s := open(t, url)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = s.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{{Name: fmt.Sprint("r:", n),
			Data: strings.Repeat("x", 1<<20)}}})
	}
	expect(t, "full", err, counter.FaultOutOfSpace, "free space on the server's disk")
	_, docs, err := s.Load(t.Context(), someQueue, "r:0", fmt.Sprint("r:", n-1))
	if err != nil || len(docs[0].Data) != 1<<20 || docs[1].Data != "" {
		t.Errorf("%d documents, %v", len(docs), err)
	}
}

// TestURL: a wrong URL is refused without its password.
func TestURL(t *testing.T) {
	for url, says := range map[string]string{
		"redis://x":                              "mysql:// or mariadb://",
		"mysql://u:s3cret@h:port/x":              "cannot be read",
		"mysql://u:a@s3cret:b@h/x":               "cannot be read",
		"mysql://u:s3cret@h/":                    "one database",
		"mysql://u:s3cret@h/a/b":                 "one database",
		"mysql://u:s3cret@h/x?charset=gbk":       "one of",
		"mysql://u:s3cret@h/x?tls=maybe":         "skip-verify",
		"mysql://u:s3cret@h/x?ssl-ca=none":       "PEM",
		"mysql://u:s3cret@h/x?connect_timeout=5": "a duration",
		"mysql://u:s3cret@h/x?pool_max_conns=0":  "from 1 on",
	} {
		if _, err := Open(url, nil); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	config, conns, err := parse("mariadb://us%40er:p%2Fw@[::1]/db?socket=/run/s&pool_max_conns=3&" +
		"connect_timeout=7s&tls=preferred")
	if err != nil || config.User != "us@er" || config.Passwd != "p/w" || config.DBName != "db" || config.Net != "unix" ||
		config.Addr != "/run/s" || conns != 3 || config.Timeout != 7*time.Second || !config.AllowFallbackToPlaintext {
		t.Errorf("%+v, %d, %v", config, conns, err)
	}
}

// silentServer is the address of one that accepts connections and says nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = bufio.NewReader(conn).ReadByte() // until the client leaves
			}()
		}
	}()
	return listener.Addr().String()
}

// TestTLS: the server's certificate is verified, unless the URL says otherwise.
func TestTLS(t *testing.T) {
	ca, cert, key := certificate(t)
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: []string{"--ssl-cert=" + cert,
		"--ssl-key=" + key, "--ssl-ca=" + ca}})
	url := "mysql://root@" + server.Addr + "/strikes"
	need(t, Migrate(t.Context(), url+"?ssl-ca="+ca))
	for parameters, says := range map[string]string{
		"?ssl-ca=" + ca:                         "",
		"?tls=true&ssl-ca=" + ca:                "",
		"?tls=skip-verify":                      "",
		"?tls=preferred":                        "",
		"?tls=true":                             "certificate",
		"?ssl-cert=" + cert + "&ssl-key=" + key: "certificate",
		"?ssl-ca=" + ca + "&ssl-cert=" + cert + "&ssl-key=" + key: "",
	} {
		err := saveOne(open(t, url+parameters), t.Context())
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: got %v, want %q", parameters, err, says)
		}
	}
	config, _, err := parse(url + "?ssl-cert=" + cert + "&ssl-key=" + key)
	if err != nil || len(config.TLS.Certificates) != 1 || config.TLS.InsecureSkipVerify {
		t.Errorf("%+v, %v", config, err)
	}
}

// certificate returns files of a certificate for 127.0.0.1 that signs itself, and of its key, which everybody may read.
func certificate(t *testing.T) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	need(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	need(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	need(t, err)
	dir, err := os.MkdirTemp("", "strikes-tls-")
	need(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
		err := os.WriteFile(path, text, 0o644) // for the server
		need(t, err)
		return path
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", der), write("cert.pem", "CERTIFICATE", der),
		write("key.pem", "PRIVATE KEY", pkcs8)
}
