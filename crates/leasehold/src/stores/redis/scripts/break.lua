-- ARGV: fence, '1' to free it now.
local target = tonumber(ARGV[1])
local at_once = ARGV[2] == '1'

local function answer()
  local index
  local newest = 0
  for each, holder in ipairs(holders) do
    newest = math.max(newest, holder.fence)
    if holder.fence == target then
      index = each
    end
  end
  if not index then
    if newest > target then
      return { 'newer', newest }
    end
    return { 'absent' }
  end
  local holder = holders[index]
  local ending = holder.phase == 'broken' or holder.phase == 'lingering'
  if ending and holder.span ~= NEVER and not at_once then
    return { 'broken', holder_left(holder) }
  end
  fence = next_fence()
  changed = true
  if holder.client then
    tell(holder.client, holder.id, 'broken', holder.fence)
  end
  if at_once then
    remove_holder(index)
    bury(holder.id, 'b', remembered(holder.ttl))
    bury(holder.attached_by, 'b', remembered(holder.ttl))
    return { 'broken', 0 }
  end
  holder.phase = 'broken'
  if holder.span == NEVER then
    holder.start = now
    holder.span = BROKEN_NEVER
  end
  tell_next()
  return { 'broken', holder_left(holder) }
end

settle()
return finish(answer())
