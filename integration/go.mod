module github.com/strikesmq/strikes/integration

go 1.26.0

require github.com/strikesmq/strikes v0.0.0

require (
	github.com/strikesmq/strikes/plugin/otelstrikes v0.0.0
	github.com/strikesmq/strikes/plugin/pgstrikes v0.0.0
	github.com/strikesmq/strikes/plugin/sqlstrikes v0.0.0
	go.opentelemetry.io/otel/sdk v1.47.0
)

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	github.com/lib/pq v1.12.3
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-sql-driver/mysql v1.10.1
	github.com/jackc/pgx/v5 v5.12.0
	github.com/prometheus/procfs v0.22.0
	github.com/strikesmq/strikes/store/mysql v0.0.0
	github.com/strikesmq/strikes/store/postgres v0.0.0
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/strikesmq/strikes => ..

replace github.com/strikesmq/strikes/plugin/otelstrikes => ../plugin/otelstrikes

replace github.com/strikesmq/strikes/plugin/pgstrikes => ../plugin/pgstrikes

replace github.com/strikesmq/strikes/plugin/sqlstrikes => ../plugin/sqlstrikes

replace github.com/strikesmq/strikes/store/mysql => ../store/mysql

replace github.com/strikesmq/strikes/store/postgres => ../store/postgres
