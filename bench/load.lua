-- Arguments: the mean wait of a connection between its requests in milliseconds, 0 for none; whether each request has a key of its own, made
-- of those given by other characters in its secret part; then the keys, which are sent in turn; then the bodies of POST requests, which are sent with the first key.

local requests = {}
local sent = 0

function init(args)
  local mean = tonumber(args[1])
  if mean > 0 then
    -- A random while, so that requests arrive spread and not in bursts.
    delay = function()
      return math.random(math.floor(mean * 0.5), math.ceil(mean * 1.5))
    end
  end
  neverRepeats = args[2] == "true"
  local keys = tonumber(args[3])
  if #args == 3 + keys then
    for index = 4, #args do
      local headers = { ["CF-Connecting-IP"] = "198.51.100.7", ["Authorization"] = "Bearer " .. args[index] }
      for name, value in pairs(wrk.headers) do
        headers[name] = value
      end
      requests[#requests + 1] = wrk.format("GET", nil, headers)
    end
  end
  for index = 4 + keys, #args do
    posts = true
    local headers = { ["Authorization"] = "Bearer " .. args[4], ["Content-Type"] = "application/json" }
    requests[#requests + 1] = wrk.format("POST", nil, headers, args[index])
  end
end

function request()
  sent = sent + 1
  local text = requests[sent % #requests + 1]
  if posts then
    return (text:gsub("0000000000", string.format("%010d", sent)))
  end
  if not neverRepeats then
    return text
  end
  -- As many characters as there were, from the start of the secret part on.
  return (text:gsub("(dvo_%w+_)%w%w%w%w%w%w%w%w%w%w", function(public)
    return public .. string.format("%010d", sent)
  end))
end

function done(summary, latency)
  local text = '{"requests":%d,"seconds":%f,"refused":%d,"failed":%d,"p50":%f,"p99":%f,"withinMs":[%s]}'
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  local bounds = { 1, 2, 3, 5, 10, 40, 60, 1e9 }
  local within = {}
  for index in ipairs(bounds) do
    within[index] = 0
  end
  for each = 1, #latency do
    local us, count = latency(each)
    for index, bound in ipairs(bounds) do
      if us <= bound * 1000 then
        within[index] = within[index] + count
      end
    end
  end
  local p50, p99 = latency:percentile(50) / 1000, latency:percentile(99) / 1000
  print(text:format(summary.requests, summary.duration / 1e6, errors.status, failed, p50, p99, table.concat(within, ",")))
end
