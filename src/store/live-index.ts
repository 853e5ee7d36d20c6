/**
 * Where the live entries are. A flat resource is a key; the resources of a tree hang in a tree of their path segments,
 * so that what touches a reach is found on the way down to it and, for a subtree, below it: the cost is its depth
 * and what it finds, however many live entries there are elsewhere.
 */
import type { LeaseId } from '../core/lease.ts'
import { isTree, nameOf, realmOf, type Reach, type Resource } from '../core/resource.ts'

interface Branch {
  readonly ids: Set<LeaseId>
  readonly children: Map<string, Branch>
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

export class LiveIndex {
  /** By resource. Most commands are about one of these, so they have neither branches nor generators. */
  #flat = new Map<Resource, Set<LeaseId>>()
  #emptied = 0
  /** By realm. */
  readonly #trees = new Map<string, Branch>()

  add(resource: Resource, id: LeaseId): void {
    if (isTree(resource)) return this.#addToTree(resource, id)
    const ids = this.#flat.get(resource)
    if (ids !== undefined && ids !== EMPTIED) return void ids.add(id)
    if (ids === EMPTIED) this.#emptied -= 1
    this.#flat.set(resource, new Set<LeaseId>().add(id))
  }

  #addToTree(resource: Resource, id: LeaseId): void {
    const realm = realmOf(resource)
    let branch = this.#trees.get(realm) ?? emptyBranch()
    this.#trees.set(realm, branch)
    for (const segment of segmentsOf(resource)) {
      const known = branch.children.get(segment)
      const child = known ?? emptyBranch()
      if (known === undefined) branch.children.set(segment, child)
      else if (isEmpty(known)) branch.emptied -= 1
      branch = child
    }
    branch.ids.add(id)
  }

  remove(resource: Resource, id: LeaseId): void {
    if (isTree(resource)) return this.#removeFromTree(resource, id)
    const ids = this.#flat.get(resource)
    if (ids === undefined || !ids.has(id)) return
    if (ids.size > 1) return void ids.delete(id)
    this.#flat.set(resource, EMPTIED)
    this.#emptied += 1
    if (isTooSpare(this.#emptied, this.#flat.size)) this.#dropEmptied()
  }

  /** Into another map, for the reason that `TransientMap` gives. */
  #dropEmptied(): void {
    const left = new Map<Resource, Set<LeaseId>>()
    for (const [name, ids] of this.#flat) if (ids !== EMPTIED) left.set(name, ids)
    this.#flat = left
    this.#emptied = 0
  }

  #removeFromTree(resource: Resource, id: LeaseId): void {
    const realm = realmOf(resource)
    const root = this.#trees.get(realm)
    if (root === undefined) return
    removeFrom(root, segmentsOf(resource), id)
    if (isEmpty(root)) this.#trees.delete(realm)
  }

  /** All entries at the reach, above it, and, for a subtree, below it; some of those above may not reach down to it. */
  near(reach: Reach): Iterable<LeaseId> {
    if (!isTree(reach.resource)) return this.#flat.get(reach.resource) ?? NO_IDS
    const root = this.#trees.get(realmOf(reach.resource))
    return root === undefined ? NO_IDS : nearIn(root, reach)
  }
}

const NO_IDS: readonly LeaseId[] = []
/** Stands where the last of a resource was: taking that one out of its set would leave a table behind each time. */
const EMPTIED: Set<LeaseId> = new Set()

function* nearIn(root: Branch, { resource, extent }: Reach): Iterable<LeaseId> {
  let branch: Branch | undefined = root
  yield* branch.ids
  for (const segment of segmentsOf(resource)) {
    branch = branch.children.get(segment)
    if (branch === undefined) return
    yield* branch.ids
  }
  if (extent === 'subtree') yield* below(branch)
}

function emptyBranch(): Branch {
  return { ids: new Set(), children: new Map(), emptied: 0 }
}

function isEmpty({ ids, children, emptied }: Branch): boolean {
  return ids.size === 0 && children.size === emptied
}

function segmentsOf(resource: Resource): readonly string[] {
  return nameOf(resource)
    .split('/')
    .filter((segment) => segment !== '')
}

/** Branches that have nothing left are cut, or a tree that once was large would stay so. */
function removeFrom(branch: Branch, segments: readonly string[], id: LeaseId): void {
  const [segment, ...rest] = segments
  if (segment === undefined) {
    branch.ids.delete(id)
    return
  }
  const child = branch.children.get(segment)
  if (child === undefined || isEmpty(child)) return
  removeFrom(child, rest, id)
  if (!isEmpty(child)) return
  branch.emptied += 1
  if (!isTooSpare(branch.emptied, branch.children.size)) return
  for (const [name, left] of branch.children) if (isEmpty(left)) branch.children.delete(name)
  branch.emptied = 0
}

function* below({ children }: Branch): Iterable<LeaseId> {
  for (const child of children.values()) {
    yield* child.ids
    yield* below(child)
  }
}
