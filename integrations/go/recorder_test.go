package developeroverview

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// server is a writer with the methods of a server of Go 1.21.
type server struct {
	http.ResponseWriter
	called []string
	err    error
}

func (s *server) note(name string) error { s.called = append(s.called, name); return s.err }

func (s *server) FlushError() error                { return s.note("FlushError") }
func (s *server) SetReadDeadline(time.Time) error  { return s.note("SetReadDeadline") }
func (s *server) SetWriteDeadline(time.Time) error { return s.note("SetWriteDeadline") }
func (s *server) EnableFullDuplex() error          { return s.note("EnableFullDuplex") }
func (s *server) ReadFrom(source io.Reader) (int64, error) {
	return io.Copy(s.ResponseWriter, source)
}
func (s *server) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	here, _ := net.Pipe()
	return here, nil, s.note("Hijack")
}

// wrapper is the writer of another middleware.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func methods(w *recorder) map[string]func() error {
	return map[string]func() error{
		"FlushError":       w.FlushError,
		"SetReadDeadline":  func() error { return w.SetReadDeadline(time.Time{}) },
		"SetWriteDeadline": func() error { return w.SetWriteDeadline(time.Time{}) },
		"EnableFullDuplex": w.EnableFullDuplex,
		"Hijack":           func() error { _, _, err := w.Hijack(); return err },
	}
}

func TestCallsReachTheServerThroughOtherMiddleware(t *testing.T) {
	for name := range methods(&recorder{}) {
		inner := &server{ResponseWriter: httptest.NewRecorder()}
		if err := methods(&recorder{ResponseWriter: wrapper{inner}})[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(inner.called) != 1 || inner.called[0] != name {
			t.Errorf("%s has called %v", name, inner.called)
		}
		inner.err = errors.New("broken")
		if err := methods(&recorder{ResponseWriter: wrapper{inner}})[name](); err != inner.err {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingMethodsAreNotSupported(t *testing.T) {
	for name, call := range methods(&recorder{ResponseWriter: struct{ http.ResponseWriter }{httptest.NewRecorder()}}) {
		if err := call(); err != http.ErrNotSupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnwrapReturnsTheWriterOfTheServer(t *testing.T) {
	inner := httptest.NewRecorder()
	if (&recorder{ResponseWriter: inner}).Unwrap() != http.ResponseWriter(inner) {
		t.Error("Unwrap returns another writer")
	}
}

func TestReadFromWritesTheBody(t *testing.T) {
	inner := httptest.NewRecorder()
	var w http.ResponseWriter = &recorder{ResponseWriter: &server{ResponseWriter: inner}}
	count, err := w.(io.ReaderFrom).ReadFrom(bytes.NewBufferString("body"))
	if count != 4 || err != nil || inner.Body.String() != "body" {
		t.Errorf("%d, %v, %q", count, err, inner.Body)
	}
}

func TestProvisionalStatusesAreNotFinal(t *testing.T) {
	for _, statuses := range [][]int{{103, 404}, {100, 103, 404}, {404, 200}} {
		w := &recorder{ResponseWriter: httptest.NewRecorder()}
		for _, status := range statuses {
			w.WriteHeader(status)
		}
		if w.status.Load() != 404 {
			t.Errorf("%v ends with %d", statuses, w.status.Load())
		}
	}
	w := &recorder{ResponseWriter: httptest.NewRecorder()}
	w.WriteHeader(http.StatusSwitchingProtocols)
	if w.status.Load() != 101 {
		t.Errorf("101 ends with %d", w.status.Load())
	}
}
