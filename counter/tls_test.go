package counter

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// certified returns a server's certificate for only the address 127.0.0.1, and its authority.
func certified(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	need(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	need(t, err)
	signed, err := x509.ParseCertificate(der)
	need(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(signed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLSNames: a server that is not the first of the URL proves its own address, not the first one's name.
func TestTLSNames(t *testing.T) {
	certificate, pool := certified(t)
	fake, err := miniredis.RunTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})
	need(t, err)
	defer fake.Close()
	host, port, _ := strings.Cut(fake.Addr(), ":")
	fake.Server().SetPreHook(func(to *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd != "SENTINEL":
			return false
		case strings.EqualFold(args[0], "get-master-addr-by-name"):
			to.WriteStrings([]string{host, port})
		default:
			to.WriteLen(0)
		}
		return true
	})
	first := "localhost:" + port // which the certificate does not have
	for name, url := range map[string]string{
		"cluster":  "rediss+cluster://" + first + "?addr=" + fake.Addr(),
		"sentinel": "rediss+sentinel://" + first + "?master_name=m&addr=" + fake.Addr(),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialTest(t, url)
			switch rdb := c.rdb.(type) {
			case *redis.Client:
				rdb.Options().TLSConfig.RootCAs = pool
			case *redis.ClusterClient:
				rdb.Options().TLSConfig.RootCAs = pool
			}
			if _, err := c.Fail(t.Context(), attempt(message("1"), "a"), again); err != nil {
				t.Error(err)
			}
		})
	}
}
