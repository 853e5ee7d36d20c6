/**
 * Where the live entries are: a tree, in which a flat resource is a branch of its own and the resources of a realm hang by
 * their path segments. What touches a reach is found on the way down to it and, for a subtree, below it: the cost is its
 * depth and what it finds, however many live entries there are elsewhere.
 */
import type { LeaseId } from '../core/lease.ts'
import { isTree, nameOf, realmOf, type Reach, type Resource } from '../core/resource.ts'

interface Branch<Item> {
  readonly items: Set<Item>
  children: Map<string, Branch<Item>>
  emptied: number
}

/**
 * What has nothing left is not taken out at once. V8 leaves deleted keys of a `Map` in their chains until it makes a new
 * table: one that comes and goes in a large map would cost more each time, up to as much as there are others.
 */
const SPARE_MAX = 16

/** Of the ids of live entries, or of anything else that is at a resource. */
export class LiveIndex<Item = LeaseId> {
  readonly #root: Branch<Item> = emptyBranch()

  add(resource: Resource, item: Item): void {
    let branch = this.#root
    for (const segment of segmentsOf(resource)) {
      const known = branch.children.get(segment)
      const child = known ?? emptyBranch<Item>()
      if (known === undefined) branch.children.set(segment, child)
      else if (isEmpty(known)) branch.emptied -= 1
      branch = child
    }
    branch.items.add(item)
  }

  remove(resource: Resource, item: Item): void {
    removeFrom(this.#root, segmentsOf(resource), item)
  }

  /** All entries at the reach, above it, and, for a subtree, below it; some of those above may not reach down to it. */
  *near({ resource, extent }: Reach): Iterable<Item> {
    let branch: Branch<Item> | undefined = this.#root
    for (const segment of segmentsOf(resource)) {
      branch = branch.children.get(segment)
      if (branch === undefined) return
      yield* branch.items
    }
    if (isTree(resource) && extent === 'subtree') yield* below(branch)
  }
}

function emptyBranch<Item>(): Branch<Item> {
  return { items: new Set(), children: new Map(), emptied: 0 }
}

function isEmpty({ items, children, emptied }: Branch<unknown>): boolean {
  return items.size === 0 && children.size === emptied
}

function segmentsOf(resource: Resource): readonly string[] {
  if (!isTree(resource)) return [resource]
  const path = nameOf(resource).split('/')
  return [realmOf(resource), ...path.filter((segment) => segment !== '')]
}

/** Branches that have nothing left are cut, or a tree that once was large would stay so. */
function removeFrom<Item>(branch: Branch<Item>, segments: readonly string[], item: Item): void {
  const [segment, ...rest] = segments
  if (segment === undefined) {
    branch.items.delete(item)
    return
  }
  const child = branch.children.get(segment)
  if (child === undefined || isEmpty(child)) return
  removeFrom(child, rest, item)
  if (!isEmpty(child)) return
  branch.emptied += 1
  const { emptied, children } = branch
  if (emptied <= SPARE_MAX || emptied * 2 <= children.size) return
  // Into another map, for the reason that `TransientMap` gives.
  branch.children = new Map([...children].filter(([, left]) => !isEmpty(left)))
  branch.emptied = 0
}

function* below<Item>({ children }: Branch<Item>): Iterable<Item> {
  for (const child of children.values()) {
    yield* child.items
    yield* below(child)
  }
}
