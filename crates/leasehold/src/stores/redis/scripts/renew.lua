-- ARGV: id, fence, tenure, not_after.
local id = ARGV[1]
local tenure = tonumber(ARGV[3])
local not_after = tonumber(ARGV[4])

local function answer()
  local index = find_holder(id)
  if not index or holders[index].fence ~= tonumber(ARGV[2]) then
    return { 'lost', loss_of(id) }
  end
  local holder = holders[index]
  if holder.phase == 'broken' then
    return { 'lost', 'broken' }
  end
  if holder.phase == 'lingering' then
    return { 'lost', 'released' }
  end
  if tenure and tenure ~= holder.tenure then
    return { 'lost', 'overtaken' }
  end

  local span = holder.ttl
  -- Rounded down: the cap itself must not be passed. So a lease ends before its `max_hold` is over.
  if holder.max_hold then
    span = math.min(span, math.floor(left(holder.max_start, holder.max_hold) / 1000))
  end
  local own = NEVER
  if not_after then
    own = not_after - math.floor(now / 1000)
    if own <= 0 then
      return { 'lost', 'capped' }
    end
    span = math.min(span, own)
  end

  if holder.phase == 'offered' then
    holder.phase = 'held'
    holder.offered_to = nil
    holder.seen = nil
  end
  -- A sharer whose ticket ends soon must not shorten what another owner has renewed.
  if holder_left(holder) <= span * 1000 then
    holder.start = now
    holder.span = span
  end
  changed = true
  -- What another owner has beyond the bearer's own right is not the bearer's to rely on.
  return { 'held', shown(math.min(holder_left(holder), own * 1000)) }
end

settle()
return finish(answer())
