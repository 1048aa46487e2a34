package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExtractChecksTheIntegrity(t *testing.T) {
	archive := tarball(t, "package/axe.min.js", "the script")
	sum := sha512.Sum512(archive)
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	got, err := extract(archive, integrity, "package/axe.min.js")
	if string(got) != "the script" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := extract(archive, integrity, "package/other.js"); err == nil {
		t.Error("a file that is not in the archive was found")
	}
	if _, err := extract(archive, axeIntegrity, "package/axe.min.js"); err == nil || !strings.Contains(err.Error(), "integrity") {
		t.Errorf("another archive: %v", err)
	}
}

func TestFindAxe(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "new"))
	if path, err := FindAxe(); err == nil {
		t.Fatalf("found %s", path)
	}
	if err := cache([]byte("the script"), axeFile, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := FindAxe()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(found); string(got) != "the script" || err != nil {
		t.Errorf("%s: %q, %v", found, got, err)
	}
}

func tarball(t *testing.T, name, content string) []byte {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}
