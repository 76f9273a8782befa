package developeroverview

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// recorder remembers the status of a response. It has the methods that http.ResponseController looks for.
type recorder struct {
	http.ResponseWriter
	status     atomic.Int32
	isWritten  bool
	isHijacked bool
	hasBegun   bool
	begins     func()
	report     func(status int)
}

// begin notes that the response begins.
func (r *recorder) begin() {
	if !r.hasBegun && r.begins != nil {
		r.hasBegun = true
		r.begins()
	}
}

// WriteHeader passes provisional statuses on. Only 101 among them ends a request.
func (r *recorder) WriteHeader(status int) {
	r.begin()
	if !r.isWritten && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status.Store(int32(status))
		r.isWritten = true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(body []byte) (int, error) {
	r.begin()
	r.isWritten = true
	return r.ResponseWriter.Write(body)
}

// ReadFrom lets the server copy a file without a buffer.
func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	r.begin()
	r.isWritten = true
	return io.Copy(r.ResponseWriter, source)
}

// Unwrap returns the writer of the server.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// find returns the first writer that has the methods of T, or false. Other middleware may have wrapped the writer of the server too.
func find[T any](writer http.ResponseWriter) (T, bool) {
	for {
		if found, ok := writer.(T); ok {
			return found, true
		}
		wrapper, ok := writer.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			var none T
			return none, false
		}
		writer = wrapper.Unwrap()
	}
}

// Flush sends what is buffered, if the server can do that.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError sends what is buffered.
func (r *recorder) FlushError() error {
	r.begin()
	if flusher, ok := find[interface{ FlushError() error }](r.ResponseWriter); ok {
		r.isWritten = true
		return flusher.FlushError()
	}
	flusher, ok := find[http.Flusher](r.ResponseWriter)
	if !ok {
		return http.ErrNotSupported
	}
	r.isWritten = true
	flusher.Flush()
	return nil
}

// SetReadDeadline sets the time until which the body is read.
func (r *recorder) SetReadDeadline(deadline time.Time) error {
	if setter, ok := find[interface{ SetReadDeadline(time.Time) error }](r.ResponseWriter); ok {
		return setter.SetReadDeadline(deadline)
	}
	return http.ErrNotSupported
}

// SetWriteDeadline sets the time until which the response is written.
func (r *recorder) SetWriteDeadline(deadline time.Time) error {
	if setter, ok := find[interface{ SetWriteDeadline(time.Time) error }](r.ResponseWriter); ok {
		return setter.SetWriteDeadline(deadline)
	}
	return http.ErrNotSupported
}

// EnableFullDuplex lets a handler read the body while it writes.
func (r *recorder) EnableFullDuplex() error {
	if enabler, ok := find[interface{ EnableFullDuplex() error }](r.ResponseWriter); ok {
		return enabler.EnableFullDuplex()
	}
	return http.ErrNotSupported
}

// Hijack lets the handler take over the connection, for example for a WebSocket. The request is reported as 101 when the connection is closed.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.begin()
	hijacker, ok := find[http.Hijacker](r.ResponseWriter)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	connection, buffer, err := hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	r.isHijacked = true
	return &hijacked{Conn: connection, report: r.report}, buffer, nil
}

// hijacked is a connection that a handler has taken over.
type hijacked struct {
	net.Conn
	closed sync.Once
	report func(status int)
}

// NetConn returns the connection of the server.
func (h *hijacked) NetConn() net.Conn { return h.Conn }

func (h *hijacked) Close() error {
	h.closed.Do(func() { h.report(http.StatusSwitchingProtocols) })
	return h.Conn.Close()
}
