/** Cuts a list into batches of at most `size`, in order; none if the list is empty. */
export function* batchesOf<Item>(
  items: readonly Item[],
  size: number,
): Generator<readonly Item[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size)
}
