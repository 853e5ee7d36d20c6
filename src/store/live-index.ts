/**
 * Where the live entries are. A flat resource is a key; the resources of a tree hang in a tree of their path segments,
 * so that what touches a reach is found on the way down to it and, for a subtree, below it: the cost is its depth
 * and what it finds, however many live entries there are elsewhere.
 */
import type { LeaseId } from '../core/lease.ts'
import { isTree, nameOf, realmOf, type Reach, type Resource } from '../core/resource.ts'

interface Branch<Item> {
  readonly items: Set<Item>
  readonly children: Map<string, Branch<Item>>
  /** How many of the children have nothing left. */
  emptied: number
}

/**
 * What has nothing left is not taken out at once. V8 leaves deleted keys of a `Map` in their chains until it makes a new
 * table: one that comes and goes in a large map would cost more each time, up to as much as there are others.
 */
const SPARE_MAX = 16

function isTooSpare(emptied: number, all: number): boolean {
  return emptied > SPARE_MAX && emptied * 2 > all
}

/** Of the ids of live entries, or of anything else that is at a resource. */
export class LiveIndex<Item = LeaseId> {
  /** By resource. Most commands are about one of these, so they have neither branches nor generators. */
  #flat = new Map<Resource, Set<Item>>()
  #emptied = 0
  /** By realm. */
  readonly #trees = new Map<string, Branch<Item>>()

  add(resource: Resource, item: Item): void {
    if (isTree(resource)) return this.#addToTree(resource, item)
    const items = this.#flat.get(resource)
    if (items !== undefined && items !== EMPTIED) return void items.add(item)
    if (items === EMPTIED) this.#emptied -= 1
    this.#flat.set(resource, new Set<Item>().add(item))
  }

  #addToTree(resource: Resource, item: Item): void {
    const realm = realmOf(resource)
    let branch = this.#trees.get(realm) ?? emptyBranch<Item>()
    this.#trees.set(realm, branch)
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
    if (isTree(resource)) return this.#removeFromTree(resource, item)
    const items = this.#flat.get(resource)
    if (items === undefined || !items.has(item)) return
    if (items.size > 1) return void items.delete(item)
    this.#flat.set(resource, EMPTIED)
    this.#emptied += 1
    if (isTooSpare(this.#emptied, this.#flat.size)) this.#dropEmptied()
  }

  /** Into another map, for the reason that `TransientMap` gives. */
  #dropEmptied(): void {
    const left = new Map<Resource, Set<Item>>()
    for (const [name, items] of this.#flat) if (items !== EMPTIED) left.set(name, items)
    this.#flat = left
    this.#emptied = 0
  }

  #removeFromTree(resource: Resource, item: Item): void {
    const realm = realmOf(resource)
    const root = this.#trees.get(realm)
    if (root === undefined) return
    removeFrom(root, segmentsOf(resource), item)
    if (isEmpty(root)) this.#trees.delete(realm)
  }

  /** All entries at the reach, above it, and, for a subtree, below it; some of those above may not reach down to it. */
  near(reach: Reach): Iterable<Item> {
    if (!isTree(reach.resource)) return this.#flat.get(reach.resource) ?? NOTHING
    const root = this.#trees.get(realmOf(reach.resource))
    return root === undefined ? NOTHING : nearIn(root, reach)
  }
}

const NOTHING: readonly never[] = []
/** Stands where the last of a resource was: taking that one out of its set would leave a table behind each time. */
const EMPTIED = new Set<never>()

function* nearIn<Item>(root: Branch<Item>, { resource, extent }: Reach): Iterable<Item> {
  let branch: Branch<Item> | undefined = root
  yield* branch.items
  for (const segment of segmentsOf(resource)) {
    branch = branch.children.get(segment)
    if (branch === undefined) return
    yield* branch.items
  }
  if (extent === 'subtree') yield* below(branch)
}

function emptyBranch<Item>(): Branch<Item> {
  return { items: new Set(), children: new Map(), emptied: 0 }
}

function isEmpty({ items, children, emptied }: Branch<unknown>): boolean {
  return items.size === 0 && children.size === emptied
}

function segmentsOf(resource: Resource): readonly string[] {
  return nameOf(resource)
    .split('/')
    .filter((segment) => segment !== '')
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
  if (!isTooSpare(branch.emptied, branch.children.size)) return
  for (const [name, left] of branch.children) if (isEmpty(left)) branch.children.delete(name)
  branch.emptied = 0
}

function* below<Item>({ children }: Branch<Item>): Iterable<Item> {
  for (const child of children.values()) {
    yield* child.items
    yield* below(child)
  }
}
