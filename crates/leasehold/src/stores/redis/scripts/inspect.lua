-- Changes nothing.
local held = {}
for _, holder in ipairs(holders) do
  if holder_left(holder) > 0 then
    held[#held + 1] = view_of(holder)
  end
end
if stranger then
  held[1] = view_of_stranger()
end
local waiting = {}
if soonest then
  local all = call('HGETALL', WAITERS)
  for index = 2, #all, 2 do
    local one = cmsgpack.unpack(all[index])
    if left(waiter_start(one), one.wait) > 0 then
      waiting[#waiting + 1] = one
    end
  end
end
table.sort(waiting, function(one, other)
  return one.place < other.place
end)
for index, one in ipairs(waiting) do
  local silent = 0
  if one.lapsed ~= nil or is_silent(member(one)) then
    silent = 1
  end
  waiting[index] = { one.who, math.max(0, now - one.since), silent }
end
return { now, held, waiting }
