package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindRabbitMQ tells RabbitMQ's own script from a wrapper of the same name.
func TestFindRabbitMQ(t *testing.T) {
	wrapper := t.TempDir()
	if err := os.WriteFile(filepath.Join(wrapper, "rabbitmq-server"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", wrapper)
	before := rabbitSbins
	defer func() { rabbitSbins = before }()
	own := t.TempDir()
	rabbitSbins = []string{filepath.Join(t.TempDir(), "none-*"), own}

	if sbin, err := FindRabbitMQ(); err == nil {
		t.Fatalf("found %s", sbin)
	}
	for _, name := range []string{"rabbitmq-server", "rabbitmq-env"} {
		if err := os.WriteFile(filepath.Join(own, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if sbin, err := FindRabbitMQ(); sbin != own || err != nil {
		t.Fatalf("found %q, %v; want %s", sbin, err, own)
	}
}
