"""Datasets, samplers and the DataLoader. Source of names and behaviour: torch.utils.data."""

from gradhook.utils.data.collate import default_collate as default_collate
from gradhook.utils.data.collate import default_convert as default_convert
from gradhook.utils.data.dataloader import DataLoader as DataLoader
from gradhook.utils.data.dataset import ChainDataset as ChainDataset
from gradhook.utils.data.dataset import ConcatDataset as ConcatDataset
from gradhook.utils.data.dataset import Dataset as Dataset
from gradhook.utils.data.dataset import IterableDataset as IterableDataset
from gradhook.utils.data.dataset import StackDataset as StackDataset
from gradhook.utils.data.dataset import TensorDataset as TensorDataset
from gradhook.utils.data.sampler import BatchSampler as BatchSampler
from gradhook.utils.data.sampler import RandomSampler as RandomSampler
from gradhook.utils.data.sampler import Sampler as Sampler
from gradhook.utils.data.sampler import SequentialSampler as SequentialSampler
from gradhook.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from gradhook.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from gradhook.utils.data.subset import Subset as Subset
from gradhook.utils.data.subset import random_split as random_split
from gradhook.utils.data.worker import WorkerInfo as WorkerInfo
from gradhook.utils.data.worker import get_worker_info as get_worker_info
