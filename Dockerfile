# The command alone, without a shell: docker run strikes doctor orders. A consumer's image copies it:
#   COPY --from=strikes /usr/bin/strikes /usr/bin/strikes
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG VERSION=(devel)
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X 'main.version=$VERSION'" \
  -o /strikes ./cmd/strikes

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /strikes /usr/bin/strikes
USER nonroot
ENTRYPOINT ["/usr/bin/strikes"]
