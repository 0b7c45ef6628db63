import { CodedError } from '../errors/coded-error.ts';

/** An interface of Node's that this version does not have. */
export function missing(name: string, use: string): CodedError {
  const remedy = 'run it with the Node that npm installs beside it (package.json), or one that CI names';
  return new CodedError('ERR_SALLYPORT_NODE', `Node ${process.version} has no ${name}, needed for ${use}: ${remedy}`);
}
