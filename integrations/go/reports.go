package developeroverview

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
	"unicode/utf16"
)

// Reports are sent in batches. One report that the Worker does not accept never holds the others back.

const (
	reportEvery   = time.Second
	reportTimeout = 10 * time.Second
	reportsAtOnce = 500
	maxWaiting    = 20000
	maxRoute      = 200
	maxDurationMs = 86400000
	// A response can be reported for ten minutes.
	openFor = 10 * time.Minute
	// A batch is halved at most this often until the next second.
	maxHalvings = 100
)

type report struct {
	Receipt    string  `json:"receipt"`
	Status     int     `json:"status"`
	DurationMs float64 `json:"duration_ms"`
	Route      string  `json:"route,omitempty"`
	at         time.Time
}

type reports struct {
	say     func(error)
	post    func([]byte) (int, []byte, error)
	sending sync.Mutex
	stop    chan struct{}
	stopped sync.Once

	mutex   sync.Mutex
	waiting []report
	dropped int
}

func newReports(say func(error), post func([]byte) (int, []byte, error)) *reports {
	made := &reports{say: say, post: post, stop: make(chan struct{})}
	go made.run()
	return made
}

func (r *reports) run() {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.flush()
		case <-r.stop:
			return
		}
	}
}

func (r *reports) close() {
	r.stopped.Do(func() { close(r.stop) })
	r.flush()
}

func (r *reports) stats() Stats {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return Stats{Waiting: len(r.waiting), Dropped: r.dropped}
}

// add adds a report, within the bounds of the Worker.
func (r *reports) add(made report) {
	if made.Status < 100 || made.Status > 599 {
		made.Status = 599
	}
	made.DurationMs = math.Min(math.Max(0, made.DurationMs), maxDurationMs)
	// The Worker counts characters in UTF-16.
	if units := utf16.Encode([]rune(made.Route)); len(units) > maxRoute {
		made.Route = string(utf16.Decode(units[:maxRoute]))
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.waiting = append(r.waiting, made)
	if over := len(r.waiting) - maxWaiting; over > 0 {
		r.waiting = r.waiting[over:]
		r.dropped += over
	}
}

// flush sends all reports that wait. It returns when they are sent, or when the Worker does not take them now.
func (r *reports) flush() {
	r.sending.Lock()
	defer r.sending.Unlock()
	var later []report
	var batches [][]report
	dropped, halvings := 0, 0
	for {
		var batch []report
		if len(batches) > 0 {
			batch, batches = batches[len(batches)-1], batches[:len(batches)-1]
		} else if batch = r.take(); len(batch) == 0 {
			break
		}
		statuses, isRefused := []int(nil), false
		if halvings <= maxHalvings {
			statuses, isRefused = r.send(batch)
		}
		if isRefused {
			halvings++
			if half := (len(batch) + 1) / 2; len(batch) == 1 {
				dropped++
			} else {
				batches = append(batches, batch[half:], batch[:half])
			}
			continue
		}
		if statuses == nil {
			later = append(later, batch...)
			for index := len(batches) - 1; index >= 0; index-- {
				later = append(later, batches[index]...)
			}
			break
		}
		for index, each := range batch {
			switch {
			case index < len(statuses) && statuses[index] == http.StatusOK:
			case index < len(statuses) && statuses[index] == http.StatusServiceUnavailable:
				// The log writer of this entry could not be reached. All other results are final.
				later = append(later, each)
			default:
				dropped++
			}
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.waiting = append(later, r.waiting...)
	r.dropped += dropped
}

func (r *reports) take() []report {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	open := make([]report, 0, len(r.waiting))
	for _, each := range r.waiting {
		if time.Since(each.at) < openFor {
			open = append(open, each)
		}
	}
	r.dropped += len(r.waiting) - len(open)
	count := len(open)
	if count > reportsAtOnce {
		count = reportsAtOnce
	}
	r.waiting = open[count:]
	return append([]report(nil), open[:count]...)
}

// send returns the status of each report, or true if the Worker does not accept the batch as it is. Otherwise the batch has to wait.
func (r *reports) send(batch []report) ([]int, bool) {
	body, err := json.Marshal(map[string]interface{}{"reports": batch})
	if err != nil {
		return nil, true
	}
	status, text, err := r.post(body)
	if err != nil {
		r.say(fmt.Errorf("%d reports wait: %w", len(batch), err))
		return nil, false
	}
	if status != http.StatusOK {
		r.say(fmt.Errorf("the Worker responded to %d reports with %d", len(batch), status))
		return nil, status >= 400 && status < 500 && !saysNothing(status)
	}
	var results struct {
		Data []struct {
			Status int `json:"status"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &results); err != nil || results.Data == nil {
		return nil, false
	}
	statuses := make([]int, len(results.Data))
	for index, result := range results.Data {
		statuses[index] = result.Status
	}
	return statuses, false
}

// saysNothing returns whether a status says nothing about the reports themselves.
func saysNothing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return false
}
