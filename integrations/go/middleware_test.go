package developeroverview

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// worker plays the Worker: it allows every request, and notes what it is told.
type worker struct {
	*httptest.Server
	mutex    sync.Mutex
	reports  []string
	findings int
	refused  string // The token that gets 401.
}

func newWorker(t *testing.T) *worker {
	made := &worker{}
	made.Server = httptest.NewServer(http.HandlerFunc(made.serve))
	t.Cleanup(made.Close)
	return made
}

func (w *worker) serve(rw http.ResponseWriter, r *http.Request) {
	body := struct {
		Keys     []struct{ Key string }
		Reports  []struct{ Receipt string }
		Findings []struct{ Count int }
	}{}
	_ = json.NewDecoder(r.Body).Decode(&body)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case w.refused != "" && strings.HasSuffix(r.Header.Get("Authorization"), w.refused):
		rw.WriteHeader(http.StatusUnauthorized)
	case strings.HasSuffix(r.URL.Path, "/leases"):
		_, _ = rw.Write([]byte(`{"data":[{"allowed":true,"status":200,"enforced":false,"receipt":"r","request_id":"q","headers":{},"rate_limits":[],` +
			`"account":{"id":"acc_1","name":"Acme","metadata":{}},"key":{"id":"key_1","name":"Key","scopes":[],"metadata":{}}}]}`))
	case strings.HasSuffix(r.URL.Path, "/reports"):
		results := []map[string]int{}
		for _, each := range body.Reports {
			w.reports = append(w.reports, each.Receipt)
			results = append(results, map[string]int{"status": 200})
		}
		_ = json.NewEncoder(rw).Encode(map[string]interface{}{"data": results})
	default:
		for _, each := range body.Findings {
			w.findings += each.Count
		}
		rw.WriteHeader(http.StatusNoContent)
	}
}

func (w *worker) told() (reports, findings int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.reports), w.findings
}

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

func newVerifier(t *testing.T, w *worker, options Options) *Verifier {
	options.URL, options.Token = w.URL, "old"
	if options.Logger == nil {
		options.Logger = silent{}
	}
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func ask(handler http.Handler, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequest("GET", path, nil)
	request.Header.Set("Authorization", "Bearer one")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

var ran = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("ran")) })

func TestFunctionsThatFailChangeNoResponse(t *testing.T) {
	fails := func(*http.Request) string { panic("broken") }
	w := newWorker(t)
	for name, options := range map[string]Options{
		"Route":                 {Route: fails},
		"Route in shadow mode":  {Route: fails, Mode: Shadow},
		"Scope in shadow mode":  {Scope: fails, Mode: Shadow},
		"Compare":               {Compare: func(*http.Request) bool { panic("broken") }, Mode: Shadow},
		"Scope and Enforcement": {Scope: fails, Mode: Shadow, Enforcement: &Enforcement{Share: 1}},
	} {
		v := newVerifier(t, w, options)
		if response := ask(v.Middleware(ran), "/"); response.Code != 200 || response.Body.String() != "ran" {
			t.Errorf("%s: %d %s", name, response.Code, response.Body)
		}
		v.Close()
	}
}

func TestShadowModeTellsAllThatItHasDecidedBeforeItIsClosed(t *testing.T) {
	w := newWorker(t)
	v := newVerifier(t, w, Options{Mode: Shadow})
	handler := v.Middleware(ran)
	for sent := 0; sent < 20; sent++ {
		ask(handler, "/")
	}
	v.Close()
	if reports, findings := w.told(); reports != 20 || findings != 20 {
		t.Errorf("%d reports and %d findings of 20", reports, findings)
	}
}

func TestANewTokenSendsTheReportsThatTheOldOneCouldNot(t *testing.T) {
	w := newWorker(t)
	v := newVerifier(t, w, Options{Leases: Off})
	w.mutex.Lock()
	w.refused = "old"
	w.mutex.Unlock()
	for sent := 0; sent < 10; sent++ {
		v.Report(Report{Receipt: "r", Status: 200})
	}
	v.Flush()
	if reports, _ := w.told(); reports != 0 {
		t.Fatalf("%d reports with a token that is revoked", reports)
	}
	next, err := v.WithToken("new")
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if reports, _ := w.told(); reports != 10 {
		t.Errorf("%d reports of 10", reports)
	}
}

type asking struct{ v *Verifier }

func (a *asking) Printf(string, ...interface{}) { a.v.Stats() }

func TestALoggerCanAskForTheCounters(t *testing.T) {
	logger := &asking{}
	v, err := New(Options{URL: "http://127.0.0.1:9", Token: "token", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	logger.v = v
	done := make(chan int)
	go func() { done <- ask(v.Middleware(ran), "/").Code }()
	select {
	case status := <-done:
		if status != http.StatusServiceUnavailable {
			t.Error(status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the decision never ends")
	}
}

func TestEnforcementIsCheckedAtTheStart(t *testing.T) {
	many := make([]string, 101)
	for _, options := range []Options{
		{Enforcement: &Enforcement{Share: 0.1}},
		{Mode: Shadow, Enforcement: &Enforcement{Share: 1.5}},
		{Mode: Shadow, Enforcement: &Enforcement{Accounts: many}},
	} {
		options.URL, options.Token = "http://127.0.0.1:9", "token"
		if _, err := New(options); err == nil {
			t.Errorf("%+v is accepted", options.Enforcement)
		}
	}
}
