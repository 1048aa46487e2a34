// Package servers starts RabbitMQ, Redis, PostgreSQL and MariaDB as private
// children of this process, for the demo and for the integration tests.
//
// A private server listens on free loopback ports only, reads no
// configuration of the machine's own servers, and keeps everything it writes
// in one temporary directory. Close ends it and removes the directory; when
// this process dies without calling Close, by SIGKILL too, a small guard
// process does the same.
//
// It runs on Linux and macOS. Elsewhere every start fails: set AMQP_URL and
// REDIS_URL instead.
package servers
