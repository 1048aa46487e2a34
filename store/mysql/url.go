package mysql

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	driverOf "github.com/go-sql-driver/mysql"

	"github.com/strikesmq/strikes/internal/setting"
)

// idleTimeout is how long the server keeps a connection without a request. Then it ends the transaction, which frees
// the locks of a process that froze in a Save.
const idleTimeout = 10 * time.Second

// parse reads a URL.
func parse(rawURL string) (config *driverOf.Config, conns int, err error) {
	if !strings.HasPrefix(rawURL, "mysql://") && !strings.HasPrefix(rawURL, "mariadb://") {
		return nil, 0, setting.New("URL", "another scheme", "mysql:// or mariadb://")
	}
	u, parameters, err := setting.ParseURL(rawURL)
	if err != nil {
		return nil, 0, err
	}
	if err := setting.CheckParameters(parameters, []string{"tls", "ssl-ca", "ssl-cert", "ssl-key", "socket",
		"connect_timeout", "pool_max_conns"}); err != nil {
		return nil, 0, err
	}
	config = driverOf.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	if config.DBName == "" || strings.Contains(config.DBName, "/") {
		return nil, 0, setting.New("URL", "none or several", "one with one database, as in mysql://user@host/strikes")
	}
	config.Net, config.Addr = "tcp", net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "3306"))
	if path := parameters.Get("socket"); path != "" {
		config.Net, config.Addr = "unix", path
	}
	config.Timeout, conns = 2*time.Second, max(4, runtime.NumCPU())
	if text := parameters.Get("connect_timeout"); text != "" {
		if config.Timeout, err = time.ParseDuration(text); err != nil || config.Timeout <= 0 {
			return nil, 0, setting.New("parameter connect_timeout", text, "a duration such as 5s")
		}
	}
	if text := parameters.Get("pool_max_conns"); text != "" {
		if conns, err = strconv.Atoi(text); err != nil || conns < 1 {
			return nil, 0, setting.New("parameter pool_max_conns", text, "a number from 1 on")
		}
	}
	if config.TLS, err = tlsOf(u, parameters); err != nil {
		return nil, 0, err
	}
	config.AllowFallbackToPlaintext = parameters.Get("tls") == "preferred"
	// A Save sends several statements at once, with their arguments in them.
	config.InterpolateParams, config.MultiStatements = true, true
	config.Logger = &driverOf.NopLogger{} // each error is returned as well
	config.ConnectionAttributes = "program_name:strikes"
	config.Params = map[string]string{
		"autocommit": "1", "completion_type": "0", "sql_mode": "'STRICT_ALL_TABLES'",
		"character_set_client": "utf8mb4",              // the server may ignore the driver's, and read backslashes otherwise
		"sql_select_limit":     "18446744073709551615", // a lower one of the server hides rows
		"sql_big_selects":      "1",
		"wait_timeout":         strconv.Itoa(int(idleTimeout.Seconds())),
	}
	return config, conns, nil
}

// tlsOf returns nil for a connection without TLS.
func tlsOf(u *url.URL, parameters url.Values) (*tls.Config, error) {
	mode := parameters.Get("tls")
	ca, cert, key := parameters.Get("ssl-ca"), parameters.Get("ssl-cert"), parameters.Get("ssl-key")
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	switch mode {
	case "true":
	case "skip-verify", "preferred":
		config.InsecureSkipVerify = true
	case "", "false":
		if mode == "" && ca+cert+key != "" {
			break
		}
		return nil, nil
	default:
		return nil, setting.New("parameter tls", mode, "true, skip-verify, preferred or false")
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, setting.New("parameter ssl-ca", ca, "a file of PEM certificates that can be read")
		}
	}
	if cert+key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, setting.New("parameter ssl-cert", cert, "a file of a PEM certificate, with its key in ssl-key")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
