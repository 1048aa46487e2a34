module github.com/strikesmq/strikes/store/mysql

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/strikesmq/strikes v0.0.0
	golang.org/x/sync v0.24.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/rabbitmq/amqp091-go v1.16.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

// Until the library is released; the release drops it.
replace github.com/strikesmq/strikes => ../..
