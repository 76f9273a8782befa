-- wrk at a pace: each connection waits a random while between its requests, so that they arrive spread and not in bursts.
-- Arguments: the mean wait in milliseconds, then the keys, which are sent in turn.

local mean
local keys = {}
local sent = 0

function init(args)
  mean = tonumber(args[1])
  for index = 2, #args do
    keys[#keys + 1] = args[index]
  end
end

function delay()
  return math.random(math.floor(mean * 0.5), math.ceil(mean * 1.5))
end

function request()
  local headers = { ["CF-Connecting-IP"] = "198.51.100.7" }
  if #keys > 0 then
    headers["Authorization"] = "Bearer " .. keys[sent % #keys + 1]
  end
  sent = sent + 1
  return wrk.format("GET", nil, headers)
end

function done(summary, latency)
  local text = '{"requests":%d,"seconds":%f,"refused":%d,"failed":%d,"p50":%f,"p99":%f}'
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  print(text:format(summary.requests, summary.duration / 1e6, errors.status, failed, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
