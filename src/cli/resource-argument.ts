/** Resources as people name them: `kind:name`, or a bare path, which means the file. */
import { readResource } from '../client/read-options.ts'
import { invalid } from '../core/errors.ts'
import { isTree, parseResource, type Reach, type Resource } from '../core/resource.ts'
import type { LinkedPath } from '../files/linked-path.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'

/**
 * A colon before the first slash makes it `kind:name`; everything else is a path, taken from the working directory.
 * A file whose name has a colon is written `./a:b`.
 */
export function readResourceArgument(text: string, cwd: string): Resource {
  return readResource(systemRuntime, nameIn(text, cwd))
}

function nameIn(text: string, cwd: string): string {
  if (text === '') throw invalid('resource', 'must be kind:name or a path', text)
  const [first = ''] = text.split('/', 1)
  const name = first.includes(':') ? text : `file:${text.startsWith('/') ? text : `${cwd}/${text}`}`
  if (name.includes('\ufffd')) throw invalid('resource', 'must be valid UTF-8', name)
  return name
}

/** The same with how it was spelt, before its links were followed. */
export function readLinkedPath(text: string, cwd: string): LinkedPath {
  return { ...readReach(text, cwd), spelt: parseResource(nameIn(text, cwd)) }
}

/** The same with what it covers: a path that ends with a slash means everything below it too. */
export function readReach(text: string, cwd: string): Reach {
  const resource = readResourceArgument(text, cwd)
  const extent = isTree(resource) && text.endsWith('/') ? 'subtree' : 'exact'
  return { resource, extent }
}
