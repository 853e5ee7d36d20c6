/**
 * Resources: `kind:name`, which realm they belong to, and which of them overlap.
 *
 * Names arrive here as text and leave as a `Resource` or not at all. Nothing below this file looks at the spelling
 * of a name again. Symbolic links are resolved before, in the runtime: the core cannot see a disk.
 */
import { invalid } from './errors.ts'
import { NAME_BYTES_MAX } from './limits.ts'
import { requireText, utf8Length } from './input.ts'

export type Mode = 'exclusive' | 'shared'
export type Extent = 'exact' | 'subtree'

/** A validated `kind:name`. */
export type Resource = string & { readonly __resource: unique symbol }

const KIND_PATTERN = /^[a-z][a-z0-9-]{0,31}$/
const NAMESPACE_PATTERN = /^[a-z0-9._-]{1,64}$/
const FILE_PREFIX = 'file:'
const WORKFLOW_PREFIX = 'workflow:'

/** Reads `kind:name`, or throws `INVALID_INPUT` naming the part that is wrong. */
export function parseResource(text: unknown): Resource {
  const value = requireText('resource', text)
  const colon = value.indexOf(':')
  if (colon < 0) throw invalid('resource', 'must be kind:name', value)
  const kind = value.slice(0, colon)
  if (!KIND_PATTERN.test(kind)) {
    throw invalid('resource', 'kind must match [a-z][a-z0-9-]{0,31}', kind)
  }
  const name = value.slice(colon + 1)
  if (name === '') throw invalid('resource', 'name must be 1..1024 bytes', name)
  const canonical = kind === 'file' ? normaliseFileName(name) : name.normalize('NFC')
  const bytes = utf8Length(canonical)
  if (bytes > NAME_BYTES_MAX) {
    throw invalid('resource', `name must be 1..${NAME_BYTES_MAX} bytes`, `${bytes} bytes`)
  }
  // Most come as they are, and a text that is made anew is compared letter by letter ever after.
  return (canonical === name ? value : `${kind}:${canonical}`) as Resource
}

/**
 * Makes an absolute path canonical by its spelling alone: no empty, `.` or `..` segments. A `..` that would climb
 * above the root is refused instead of dropped, because its author meant another file.
 */
export function normaliseFileName(path: string): string {
  if (!path.startsWith('/')) {
    const hint = 'path.resolve makes it one; on the command line, write it without file:'
    throw invalid('resource', `file name must be an absolute path (${hint})`, path)
  }
  const segments: string[] = []
  for (const segment of path.normalize('NFC').split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') segments.push(segment)
    else if (segments.pop() === undefined) {
      throw invalid('resource', 'file name must not climb above the root', path)
    }
  }
  return `/${segments.join('/')}`
}

export function parseNamespace(text: unknown): string {
  const value = requireText('namespace', text)
  if (NAMESPACE_PATTERN.test(value)) return value
  throw invalid('namespace', 'must match [a-z0-9._-]{1,64}', value)
}

export function kindOf(resource: Resource): string {
  return resource.slice(0, resource.indexOf(':'))
}

export function nameOf(resource: Resource): string {
  return resource.slice(resource.indexOf(':') + 1)
}

/** Tree kinds form one realm whose leases may cover a subtree. */
export function isTree(resource: Resource): boolean {
  return resource.startsWith(FILE_PREFIX)
}

/** Refuses a request that no lease can answer: a counted resource is always shared, and only trees have subtrees. */
export function checkSharing(asked: {
  readonly resource: Resource
  readonly mode?: Mode
  readonly extent?: Extent
  readonly slots?: number
}): void {
  if (asked.slots !== undefined && asked.mode === 'exclusive') {
    throw invalid('slots', 'must not be given for an exclusive lease', asked.slots)
  }
  checkExtent(asked.resource, asked.extent)
}

export function checkExtent(resource: Resource, extent: Extent = 'exact'): void {
  if (extent === 'exact' || isTree(resource)) return
  throw invalid('extent', 'must be exact for a kind that is not a tree', extent)
}

/** The realm of a resource: the whole kind for tree kinds, the resource itself for flat ones. */
export function realmOf(resource: Resource): string {
  return isTree(resource) ? `${kindOf(resource)}:` : resource
}

/** A workflow has an epoch, which outlives its leases; nothing else has one, and nothing else pays for one. */
export function hasEpoch(resource: Resource): boolean {
  return resource.startsWith(WORKFLOW_PREFIX)
}

/** The resources that contain this one, nearest first; none for a flat kind. */
export function ancestorsOf(resource: Resource): readonly Resource[] {
  if (!isTree(resource)) return []
  const ancestors: Resource[] = []
  let name = nameOf(resource)
  while (name !== '/') {
    const slash = name.lastIndexOf('/')
    name = slash === 0 ? '/' : name.slice(0, slash)
    ancestors.push(`${kindOf(resource)}:${name}` as Resource)
  }
  return ancestors
}

/** What a claim covers, or a command looks at. */
export interface Reach {
  readonly resource: Resource
  readonly extent: Extent
}

/** Whether two claims touch: the same resource, or one covers a subtree that contains the other. */
export function overlap(a: Reach, b: Reach): boolean {
  if (a.resource === b.resource) return true
  return contains(a, b) || contains(b, a)
}

/**
 * Whether all that overlaps `inner` overlaps `outer` too, so that a look at `outer` has seen everything that
 * can stand in the way of `inner`.
 */
export function covers(outer: Reach, inner: Reach): boolean {
  if (outer.resource !== inner.resource) return contains(outer, inner)
  return !isTree(inner.resource) || inner.extent === 'exact' || outer.extent === 'subtree'
}

function contains(outer: Reach, inner: Reach): boolean {
  if (outer.extent !== 'subtree' || !isTree(outer.resource)) return false
  const stem = outer.resource.endsWith('/') ? outer.resource : `${outer.resource}/`
  return inner.resource.startsWith(stem)
}
