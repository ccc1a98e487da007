-- ARGV: id, fence. Changes nothing.
local id = ARGV[1]
local index = find_holder(id)
local holder = index and holders[index]
if not holder or holder.fence ~= tonumber(ARGV[2]) or holder_left(holder) == 0 then
  return { 'lost', loss_of(id) }
end
if holder.phase == 'broken' then
  return { 'lost', 'broken' }
end
if holder.phase == 'lingering' then
  return { 'lost', 'released' }
end
return { 'held', shown(holder_left(holder)) }
